/** Updates the page's list of cached entries, with the last event of each. */
export class Holdings {
  #cache;
  #tell;
  /** The name and the last event of each entry, by the key's bytes as text. */
  #known = new Map();
  #evictedBecause = "went to make room";
  #timer;

  /** @param files those that are listed even while they are not held */
  constructor(cache, files, tell) {
    this.#cache = cache;
    this.#tell = tell;
    for (const { url } of files) {
      const bytes = new TextEncoder().encode(url);
      this.#known.set(nameOf(bytes), {
        key: bytes,
        label: shortened(url),
        hits: 0,
        last: "not asked for yet",
      });
    }
    cache.events.on("hit", (event) => this.#note(event, (known) => ((known.hits += 1), "hit")));
    cache.events.on("miss", (event) =>
      this.#note(event, () => `missed: ${event.reason.replaceAll("_", " ")}`),
    );
    cache.events.on("stored", (event) => this.#note(event, () => "stored"));
    cache.events.on("refused", (event) =>
      this.#note(event, () => `not kept: ${event.reason.replaceAll("_", " ")}`),
    );
    cache.events.on("evicted", () => this.#soon());
    // Other tabs send no events, so the list is refreshed.
    setInterval(() => this.#soon(), 3000);
  }

  /** Updates the page now. `gone` is the reason why missing entries went. */
  async tellNow(gone) {
    if (gone) this.#evictedBecause = gone;
    const [entries, stats] = await Promise.all([this.#cache.entries(), this.#cache.stats()]);
    const there = new Set();
    const held = entries.map((entry) => {
      const name = nameOf(entry.key);
      there.add(name);
      const known = this.#knowing(name, entry.key);
      known.label = shortened(entry.label ?? entry.text ?? entry.recipe?.domain ?? name);
      known.held = true;
      return {
        label: known.label,
        size: entry.size,
        used: entry.lastUsed.getTime(),
        state: stateOf(known),
        held: true,
      };
    });
    const rows = gathered(held);
    for (const [name, known] of this.#known) {
      if (known.label?.startsWith("part of")) continue;
      if (there.has(name) || known.label === undefined) continue;
      if (known.held) known.last = this.#evictedBecause;
      known.held = false;
      rows.push({ label: known.label, state: known.last, held: false });
    }
    this.#evictedBecause = "went to make room";
    rows.sort((a, b) => Number(b.held) - Number(a.held) || (b.size ?? 0) - (a.size ?? 0));
    this.#tell({ type: "holdings", rows, stats });
  }

  #note(event, change) {
    const known = this.#knowing(nameOf(event.key), event.key);
    known.last = change(known);
    this.#soon();
  }

  #knowing(name, key) {
    let known = this.#known.get(name);
    if (!known) this.#known.set(name, (known = { key, label: undefined, hits: 0, last: "kept from before" }));
    return known;
  }

  #soon() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.tellNow().catch((error) => this.#tell({ type: "warning", message: error.message }));
    }, 150);
  }
}

function stateOf({ hits, last }) {
  return last === "hit" ? `hit ${hits === 1 ? "once" : `${hits} times`}` : last;
}

function nameOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Shortens a URL to its last part. */
function shortened(text) {
  return text.replace(/\S+:\/\/\S*\/(\S+)/, "$1");
}

/** Shows the many pieces of one download as one row. */
function gathered(rows) {
  const byLabel = new Map();
  for (const row of rows) {
    const first = row.label.startsWith("part of") ? byLabel.get(row.label) : undefined;
    if (first) Object.assign(first, { size: first.size + row.size, used: Math.max(first.used, row.used) });
    else byLabel.set(row.label.startsWith("part of") ? row.label : row, row);
  }
  return [...byLabel.values()];
}
