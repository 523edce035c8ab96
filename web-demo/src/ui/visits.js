import { duration, element } from "./dom.js";
import { load, save } from "./stored.js";

/** The phases: what is measured, and whether its result is a file or a result that the application keeps. */
const PHASES = [
  ["download", "Download", "Model and runtime, 106 MB or more"],
  ["start", "Start the model", "Files read, session created"],
  ["embed", "Embed the passages", "Kept result"],
  ["tune", "Compile and tune kernels", "Kept result; with WebGPU"],
  ["answer", "First answer", "One question"],
  ["total", "Altogether", "Until the first answer"],
];
const FILES = ["download", "start"];
const KEPT = ["embed", "tune"];
const VISITS = { first: "First visit", default: "Second, default cache", warm: "Second, warmstart" };

/** The times of the three visits, side by side and on one scale. */
export class Visits {
  #cells = new Map();
  #headline;
  #times = Object.fromEntries(Object.keys(VISITS).map((visit) => [visit, load(visit)]));

  constructor(table, headline) {
    this.#headline = headline;
    const heads = Object.entries(VISITS).map(([visit, name]) => element("th", { scope: "col", class: visit }, name));
    const rows = PHASES.map(([phase, name, what]) => {
      const cells = Object.keys(VISITS).map((visit) => {
        const cell = element("td", { class: visit });
        this.#cells.set(`${visit} ${phase}`, cell);
        return cell;
      });
      const kept = KEPT.includes(phase) ? "kept" : undefined;
      return element("tr", { class: phase }, element("th", { scope: "row" }, name, element("small", { class: kept }, what)), ...cells);
    });
    const head = element("tr", {}, element("td"), ...heads);
    table.append(element("thead", {}, head), element("tbody", {}, ...rows));
    this.#draw();
  }

  /** Begins a visit. */
  begin(visit) {
    this.#times[visit] = {};
    this.#draw();
  }

  /** Shows the times of before, because a visit failed. */
  cancel(visit) {
    this.#times[visit] = load(visit);
    this.#draw();
  }

  /** Shows progress or the end of a phase. */
  phase(visit, { name, state, loaded, total, ms }) {
    if (state === "done") {
      this.#times[visit][name] = ms;
      return this.#draw();
    }
    const cell = this.#cells.get(`${visit} ${name}`);
    let bar = cell.querySelector("progress");
    if (!bar) {
      const what = `${VISITS[visit]}: ${PHASES.find(([phase]) => phase === name)[1]}`;
      bar = element("progress", { max: 1, "aria-label": what });
      cell.replaceChildren(bar, element("span", { class: "time" }));
    }
    const known = total > 0;
    if (known) bar.value = loaded / total;
    else bar.removeAttribute("value");
    cell.querySelector(".time").textContent = known ? `${Math.floor((loaded / total) * 100)} %` : "…";
  }

  /** Shows and saves the times of a visit. */
  finish(visit, phases) {
    this.#times[visit] = phases;
    save(visit, phases);
    this.#draw();
  }

  #draw() {
    const longest = Math.max(1, ...Object.values(this.#times).flatMap((times) => Object.values(times ?? {})));
    for (const [place, cell] of this.#cells) {
      const [visit, phase] = place.split(" ");
      const ms = this.#times[visit]?.[phase];
      const bar = element("span", { class: ms === undefined ? "bar none" : "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", `${((ms ?? 0) / longest) * 100}%`);
      const time = element("span", { class: ms === undefined ? "time none" : "time" }, ms === undefined ? "–" : duration(ms));
      cell.replaceChildren(bar, time);
    }
    const text = headline(this.#times);
    if (this.#headline.textContent !== text) this.#headline.textContent = text;
  }
}

/** Says how much sooner the second visit is, and by what. */
function headline({ first, default: theirs, warm }) {
  if (warm?.total && theirs?.total) {
    const difference = (phases) => phases.reduce((sum, phase) => sum + theirs[phase] - warm[phase], 0);
    const [files, kept] = [difference(FILES), difference(KEPT)];
    const reading = files >= 0 ? `takes ${duration(files)} less` : `takes ${duration(-files)} more, verified`;
    return (
      `The first answer comes after ${duration(theirs.total)} with the default cache, and after ${duration(warm.total)} with ` +
      `warmstart. Reading the files ${reading}; results that the application keeps save ${duration(Math.max(0, kept))}.`
    );
  }
  if (warm?.total) return `The second visit took ${duration(warm.total)} with warmstart. Measure it with the default cache too.`;
  if (first?.total) return `The first visit took ${duration(first.total)}. Measure the second visit, with both caches.`;
  return "How long until the first answer? The first visit is being measured.";
}
