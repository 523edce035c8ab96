import { element, shape } from "./dom.js";

const MARGIN = 26;
/** One shape per topic, so that readers need not distinguish colours. */
const MARKS = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
  "M-3.5-3.5h7v7h-7z",
  "M0-4.5L4.2 3.2h-8.4z",
  "M0-5L4.6 0L0 5L-4.6 0z",
  "M-1.3-4.5h2.6v3.2h3.2v2.6h-3.2v3.2h-2.6v-3.2h-3.2v-2.6h3.2z",
  "M0 4.5L4.2-3.2h-8.4z",
  "M-4.5-1.3h9v2.6h-9z",
  "M-1.3-4.8h2.6v9.6h-2.6z",
];
const STAR = "M0-11L2.8-3.6L10.6-3.4L4.5 1.4L6.6 8.9L0 4.6L-6.6 8.9L-4.5 1.4L-10.6-3.4L-2.8-3.6z";

/** All passages as marks on a plane, with the question among them. */
export class PassageMap {
  #figure;
  #svg;
  #passages;
  #topics;
  /** The coordinates of the marks, and what places them in the picture. */
  #marks;
  #places;
  #pointer = shape("g", { class: "pointer" });
  #latest;

  constructor(figure, passages) {
    this.#figure = figure;
    this.#svg = figure.querySelector("svg");
    this.#passages = passages;
    this.#topics = [...new Set(passages.map(({ topic }) => topic))];
    const legend = this.#topics.map((topic, index) => {
      const mark = shape(
        "svg",
        { viewBox: "-6 -6 12 12", "aria-hidden": "true" },
        shape("path", { d: MARKS[index] }),
      );
      return element("li", {}, mark, topic);
    });
    figure.querySelector(".legend").replaceChildren(...legend);
  }

  /** Draws the passages. `places` holds x and y of each. */
  draw(places) {
    // On a phone the picture is narrow, not small: its marks keep their size.
    const [width, height] = matchMedia("(max-width: 560px)").matches ? [340, 300] : [600, 340];
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#places = scaled(places, width, height);
    const marks = this.#passages.map(({ topic, text }, index) => {
      const [x, y] = this.#places(places[index * 2], places[index * 2 + 1]);
      const d = MARKS[this.#topics.indexOf(topic)];
      return shape("path", { d, transform: `translate(${x} ${y})` }, shape("title", {}, text));
    });
    this.#svg.replaceChildren(shape("g", { class: "marks" }, ...marks), this.#pointer);
    this.#marks = places;
    this.#figure.hidden = false;
    if (this.#latest) this.point(this.#latest);
  }

  /** Shows where a question lies, and its answers. What is left out stays as it was. */
  point(answer) {
    const latest = (this.#latest = { ...this.#latest, ...answer });
    if (!this.#places || !latest.at || !latest.hits) return;
    const [x, y] = this.#places(...latest.at);
    const ends = latest.hits.map(({ index }) =>
      this.#places(this.#marks[index * 2], this.#marks[index * 2 + 1]),
    );
    const lines = ends.map(([x2, y2]) => shape("line", { x1: x, y1: y, x2, y2 }));
    const dots = ends.map(([x2, y2], rank) =>
      shape(
        "g",
        { transform: `translate(${x2} ${y2})` },
        shape("circle", { r: 9 }),
        shape("text", { dy: "0.36em" }, rank + 1),
      ),
    );
    this.#pointer.replaceChildren(
      ...lines,
      ...dots.reverse(),
      shape("path", { d: STAR, transform: `translate(${x} ${y})` }),
    );
    this.#svg.setAttribute(
      "aria-label",
      `Map of ${this.#passages.length} passages; the ${ends.length} answers are numbered.`,
    );
  }
}

/** A function that places a point in the picture, so that all passages fill it. */
function scaled(places, width, height) {
  const all = Array.from(places);
  const range = (axis) => {
    const values = all.filter((_, at) => at % 2 === axis);
    return [Math.min(...values), Math.max(...values)];
  };
  const [[left, right], [top, bottom]] = [range(0), range(1)];
  const into = (value, from, to, length) => {
    const share = Math.min(1, Math.max(0, (value - from) / (to - from)));
    return Math.round((MARGIN + share * (length - 2 * MARGIN)) * 10) / 10;
  };
  return (x, y) => [into(x, left, right, width), into(y, top, bottom, height)];
}
