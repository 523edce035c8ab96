import { duration, element } from "./dom.js";
import { load, save } from "./stored.js";

const PHASES = [
  ["download", "Download", "Model and runtime"],
  ["prepare", "Prepare", "Model started, passages read"],
  ["compile", "Compile", "Kernels, tuned, with WebGPU"],
  ["answer", "First answer", "One question"],
  ["total", "Altogether", "From opening the page"],
];
const NAMES = { first: "First visit", second: "Second visit" };

/** The bars of the first visit and of the second, side by side and on one scale. */
export class Visits {
  #cells = new Map();
  #headline;
  #times = { first: load("first"), second: load("second") };
  /** Whether this is the first or the second visit, once known. */
  #now;

  constructor(root, headline) {
    this.#headline = headline;
    const heads = Object.entries(NAMES).map(([visit, name]) =>
      element("th", { scope: "col", class: visit }, name),
    );
    const head = element("tr", {}, element("td", {}), ...heads);
    const rows = PHASES.map(([phase, name, what]) => {
      const cells = Object.keys(NAMES).map((visit) => {
        const cell = element("td", { class: visit });
        this.#cells.set(visit + phase, cell);
        return cell;
      });
      const label = element("th", { scope: "row" }, name, element("small", {}, what));
      return element("tr", { class: phase }, label, ...cells);
    });
    root.append(
      element("table", { class: "bars" }, element("thead", {}, head), element("tbody", {}, ...rows)),
    );
    this.#draw();
  }

  /** Begins a visit: the first if nothing was cached, otherwise the second. */
  begin(cold) {
    this.#now = cold ? "first" : "second";
    if (cold) this.forget();
    this.#times[this.#now] = {};
    this.#draw();
  }

  /** Shows progress or the end of a step. */
  phase({ name, state, note, loaded, total, ms }) {
    if (this.#now === undefined) return;
    if (state === "done") {
      this.#times[this.#now][name] = ms;
      return this.#draw();
    }
    const cell = this.#cells.get(this.#now + name);
    let bar = cell.querySelector("progress");
    if (!bar) {
      const what = `${NAMES[this.#now]}: ${PHASES.find(([phase]) => phase === name)[1]}`;
      bar = element("progress", { max: 1, "aria-label": what });
      cell.replaceChildren(bar, element("span", { class: "time" }));
    }
    const known = total > 0;
    if (known) bar.value = loaded / total;
    else bar.removeAttribute("value");
    cell.querySelector(".time").textContent = known ? `${Math.floor((loaded / total) * 100)} %` : note || "…";
  }

  /** Shows the time of the first answer. */
  finish({ phases }) {
    this.#times[this.#now] = phases;
    save(this.#now, phases);
    this.#draw();
  }

  /** Removes the measured times. */
  forget() {
    for (const visit of Object.keys(NAMES)) {
      if (visit !== this.#now) this.#times[visit] = undefined;
      save(visit, undefined);
    }
    this.#draw();
  }

  #draw() {
    const { first, second } = this.#times;
    const longest = Math.max(first?.total ?? 0, second?.total ?? 0, ...Object.values(first ?? {}), 1);
    for (const [phase] of PHASES) {
      for (const visit of Object.keys(NAMES)) this.#bar(visit, phase, longest);
    }
    this.#headline.replaceChildren(...headline(first, second));
  }

  #bar(visit, phase, longest) {
    const cell = this.#cells.get(visit + phase);
    const ms = this.#times[visit]?.[phase];
    if (ms === undefined) return cell.replaceChildren(element("span", { class: "time none" }, "–"));
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${(ms / longest) * 100}%`);
    cell.replaceChildren(bar, element("span", { class: "time" }, duration(ms)));
  }
}

function headline(first, second) {
  if (first?.total && second?.total) {
    const times = first.total / second.total;
    const shown = times < 9.95 ? times.toFixed(1) : Math.round(times);
    return [element("strong", {}, `${shown} ×`), " sooner at the second visit"];
  }
  if (first?.total) return ["That was the first visit. Reload to see the second."];
  if (second?.total) return ["Everything was here already."];
  return ["How long until the first answer?"];
}
