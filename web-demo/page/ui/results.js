import { duration, element, size } from "./dom.js";

const STEPS = {
  download: "The model is on its way",
  prepare: "The model is being started",
  compile: "Kernels are being compiled",
  answer: "The first question is being answered",
};

/** The passages that answer a question, and a line that says how they were found. */
export class Results {
  #list;
  #told;
  #way;
  /** Whether an answer is shown while the model is still loading. */
  #early = false;

  constructor(list, told, way) {
    this.#list = list;
    this.#told = told;
    this.#way = way;
    told.textContent = "The model is on its way.";
  }

  /** Shows the progress of loading the model. */
  coming({ name, note, loaded, total }) {
    if (total > 0) this.#way.value = loaded / total;
    else this.#way.removeAttribute("value");
    if (this.#early || !(STEPS[name] || note)) return;
    const far = total > 0 && name === "download" ? `: ${size(loaded)} of ${size(total)}` : "";
    const full = loaded === total && total > 0 && name === "download";
    this.#told.textContent = full ? "Checking and storing what came." : `${note || STEPS[name]}${far}.`;
  }

  /** Shows that the model is ready. */
  ready() {
    this.#way.hidden = true;
  }

  /** Shows an answer. */
  show({ hits, kept, ms, searchMs }) {
    this.#fill(hits);
    this.#told.textContent = kept
      ? `Asked before: the answer came out of the cache in ${duration(ms)}.`
      : `Understood and answered in ${duration(ms)}, ${duration(searchMs)} of it comparing.`;
  }

  /** Shows the answer of an earlier visit, before the model is ready. */
  remembered({ hits, ms }) {
    this.#early = true;
    this.#fill(hits);
    this.#told.textContent = `Kept from your last visit, and shown after ${duration(ms)}: the model is still being read.`;
  }

  /** Shows that the question will be answered when the model is ready. */
  waits(question) {
    this.#early = true;
    this.#told.textContent = `“${question}” is answered as soon as the model is here.`;
  }

  busy() {
    this.#list.setAttribute("aria-busy", "true");
  }

  failed(message) {
    this.#way.hidden = true;
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
        const label = `${percent} of 100 alike`;
        return element(
          "li",
          {},
          element("p", { class: "passage" }, text),
          element(
            "p",
            { class: "about" },
            element("span", {}, topic),
            meter,
            element("span", { "aria-label": label }, percent),
          ),
        );
      }),
    );
  }
}
