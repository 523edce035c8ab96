import { element, size } from "./dom.js";

/** The list of a cache's entries, and how full it is. */
export class EntryList {
  #body;
  #usage;
  #full;
  #rows = [];
  /** Names of entries that are no longer stored, and why. */
  #gone = new Map();

  constructor(table, usage, full) {
    this.#body = table.tBodies[0];
    this.#usage = usage;
    this.#full = full;
    // "12 s ago" grows old by itself.
    setInterval(() => this.#draw(), 5000);
  }

  /**
   * Updates the list. `bound` is the bound of the cache in bytes, and `why` is why entries went, if they were not evicted.
   *
   * @returns the entries that were evicted since the last list
   */
  show({ rows, stats, why }, bound) {
    const names = new Set(rows.map(({ name }) => name));
    const went = this.#rows.filter(({ name }) => !names.has(name) && !name.startsWith("part of"));
    for (const { name } of went) this.#gone.set(name, why ?? "evicted");
    for (const name of names) this.#gone.delete(name);
    this.#rows = rows;
    this.#draw();
    this.#full.value = stats.bytes / bound;
    const saved = stats.savedMs >= 1000 ? ` ${(stats.savedMs / 1000).toFixed(1)} s of building saved.` : "";
    const where = stats.backend === "memory" ? ` In memory only: ${stats.reason ?? "as asked"}.` : "";
    const of = `${size(stats.bytes)} of ${size(bound)} in ${stats.entries} entries, most recently used first.`;
    this.#usage.textContent = `${of} ${stats.hits} hits since this page opened.${saved}${where}`;
    return why === undefined ? went : [];
  }

  #draw() {
    const row = (name, state, ...rest) =>
      element("tr", { class: state }, element("th", { scope: "row", title: name }, name), ...rest);
    this.#body.replaceChildren(
      ...this.#rows.map(({ name, size: bytes, used }) =>
        row(name, "stored", element("td", { class: "number" }, size(bytes)), element("td", {}, ago(used))),
      ),
      ...Array.from(this.#gone, ([name, why]) =>
        row(name, "gone", element("td", { class: "number" }, "–"), element("td", {}, why)),
      ),
    );
  }
}

function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - time) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}
