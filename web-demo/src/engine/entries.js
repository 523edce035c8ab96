/** Sends the list of a cache's entries to the page, whenever it may have changed. */
export class Entries {
  #cache;
  #tell;
  #timer;
  #turn = Promise.resolve();

  constructor(cache, tell) {
    this.#cache = cache;
    this.#tell = tell;
    for (const event of ["hit", "miss", "stored", "evicted"]) cache.events.on(event, () => this.#soon());
    // Other tabs send no events.
    setInterval(() => this.#soon(), 3000);
  }

  /** Sends the list now. `why` is why entries went, if they were not evicted. */
  tellNow(why) {
    // In turn, so that an older list never replaces a newer one.
    this.#turn = this.#turn.catch(() => undefined).then(() => this.#read(why));
    return this.#turn;
  }

  async #read(why) {
    const [entries, stats] = await Promise.all([this.#cache.entries(), this.#cache.stats()]);
    const rows = new Map();
    for (const { label, text, recipe, size, lastUsed } of entries) {
      const name = shortened(label ?? text ?? recipe?.domain ?? "unnamed");
      // The many pieces of one download are one row.
      const row = rows.get(name) ?? { name, size: 0, used: 0 };
      rows.set(name, { name, size: row.size + size, used: Math.max(row.used, lastUsed.getTime()) });
    }
    // Most recently used first: the last ones are evicted next.
    this.#tell({ type: "entries", rows: [...rows.values()].sort((a, b) => b.used - a.used), stats, why });
  }

  #soon() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.tellNow().catch(({ message }) => this.#tell({ type: "warning", message }));
    }, 150);
  }
}

/** Shortens an address to its last part. */
function shortened(text) {
  return text.replace(/\S+:\/\/\S*\/(\S+)/, "$1");
}
