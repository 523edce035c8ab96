import { duration, element } from "./dom.js";

/** The passages that answer a question, and a line about how they were found. */
export class Results {
  #list;
  #told;

  constructor(list, told) {
    this.#list = list;
    this.#told = told;
    told.textContent = "The model is on its way.";
  }

  /** Shows an answer. */
  show({ hits, kept, ms, searchMs }) {
    this.#fill(hits);
    this.#told.textContent = kept
      ? `Asked before: the answer came out of the cache in ${duration(ms)}.`
      : `Understood and answered in ${duration(ms)}, ${duration(searchMs)} of it comparing.`;
  }

  /** Shows the answer of an earlier visit, which is there before the model is. */
  remembered({ hits, ms }) {
    this.#fill(hits);
    this.#told.textContent = `Kept from your last visit, and shown after ${duration(ms)}: the model is still being read.`;
  }

  /** Says that the question will be answered when the model is there. */
  waits(question) {
    this.#told.textContent = `“${question}” is answered as soon as the model is here.`;
  }

  busy() {
    this.#list.setAttribute("aria-busy", "true");
  }

  failed(message) {
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
          element("p", { class: "about" }, element("span", {}, topic), meter, element("span", { "aria-label": label }, percent)),
        );
      }),
    );
  }
}
