import { duration, element } from "./dom.js";

const STEPS = {
  download: "The model is being downloaded.",
  start: "The model is being started.",
  embed: "The passages are being embedded.",
  tune: "Kernels are being compiled and tuned.",
  answer: "The first question is being answered.",
};

/** The passages that answer a question, and a line that says how they were found. */
export class Results {
  #list;
  #told;
  #way;
  /** Whether something more important than the progress is told while the model is loading. */
  #early = false;

  constructor(list, told, way) {
    this.#list = list;
    this.#told = told;
    this.#way = way;
    told.textContent = STEPS.download;
  }

  /** Shows the progress of loading the model. Only phases are told, so that a screen reader can follow. */
  coming({ name, loaded, total }) {
    if (total > 0) this.#way.value = loaded / total;
    else this.#way.removeAttribute("value");
    if (!this.#early && this.#told.textContent !== STEPS[name]) this.#told.textContent = STEPS[name];
  }

  /** Shows that the model is ready. */
  ready() {
    this.#way.classList.add("past");
  }

  /** Shows an answer. */
  show({ hits, kept, ms }) {
    this.#fill(hits);
    this.#told.textContent = kept
      ? `Asked before: the kept answer came after ${duration(ms)}.`
      : `Computed in ${duration(ms)}.`;
  }

  /** Shows the answer of an earlier visit, before the model is ready. */
  early({ hits, ms }) {
    this.#early = true;
    this.#fill(hits);
    this.#told.textContent = `Kept from your last visit, and shown after ${duration(ms)}. The model is still being started.`;
  }

  /** Shows that the question will be answered when the model is ready. */
  waits(question) {
    this.#early = true;
    this.#told.textContent = `“${question}” is answered as soon as the model is ready.`;
  }

  busy() {
    this.#list.setAttribute("aria-busy", "true");
  }

  failed(message) {
    this.ready();
    this.#list.removeAttribute("aria-busy");
    this.#told.textContent = `That did not work: ${message}`;
  }

  #fill(hits) {
    this.#list.removeAttribute("aria-busy");
    this.#list.replaceChildren(
      ...hits.map(({ text, topic, score }) => {
        const percent = Math.round(Math.max(0, score) * 100);
        const meter = element("span", { class: "likeness", "aria-hidden": "true" });
        meter.style.setProperty("--share", `${percent}%`);
        const share = element("span", {}, `${percent} of 100 alike`);
        return element("li", {}, element("p", { class: "passage" }, text), element("p", { class: "about" }, topic, meter, share));
      }),
    );
  }
}
