import { element, size } from "./dom.js";

/** The list of cached entries, and how full the cache is. */
export class Holdings {
  #body;
  #usage;
  #rows = [];

  constructor(table, usage) {
    this.#body = table.tBodies[0];
    this.#usage = usage;
    // "12 s ago" grows old by itself.
    setInterval(() => this.#draw(), 5000);
  }

  /** Updates the rows. `bound` is the cap of the cache in bytes. */
  show({ rows, stats }, bound) {
    this.#rows = rows;
    this.#draw();
    const share = `${size(stats.bytes)} of ${size(bound)}`;
    const meter = element(
      "meter",
      { min: 0, max: bound, value: stats.bytes, "aria-label": "How full the cache is" },
      share,
    );
    const saved = stats.savedMs >= 1000 ? ` ${(stats.savedMs / 1000).toFixed(1)} s of building spared.` : "";
    const where = stats.backend === "memory" ? ` In memory only (${stats.reason ?? "as asked"}).` : "";
    const text = `${share} in ${stats.entries} entries; ${stats.hits} hits since this page opened.${saved}${where}`;
    this.#usage.replaceChildren(meter, element("p", { class: "fine" }, text));
  }

  #draw() {
    this.#body.replaceChildren(
      ...this.#rows.map(({ label, size: bytes, used, state, held }) =>
        element(
          "tr",
          { class: held ? "held" : "gone" },
          element("th", { scope: "row", title: label }, label),
          element("td", { class: "number" }, held ? size(bytes) : "–"),
          element("td", {}, held ? ago(used) : "–"),
          element("td", { class: "state" }, state),
        ),
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
