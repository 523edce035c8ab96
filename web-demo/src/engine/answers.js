import { key } from "warmstart";
import { passages } from "../passages.js";
import { modelFields } from "./files.js";

/** The number of passages in an answer. */
const SHOWN = 5;

/** Answers questions, and keeps the answers in `results`. */
export class Answers {
  #results;
  #files;
  #model;
  #neighbours;

  constructor({ results, files, model, neighbours }) {
    this.#results = results;
    this.#files = files;
    this.#model = model;
    this.#neighbours = neighbours;
  }

  /** Returns the kept answer of a question, if there is one. Needs no model. */
  static async kept(cache, files, question) {
    return cache.get(answerKey(files, question), "json");
  }

  /** Answers a question: by a kept answer, or by the model. */
  async to(question) {
    const begun = performance.now();
    let computed;
    const build = async () => JSON.stringify((computed = await this.compute(question)));
    const options = { as: "json", label: `answer: ${question}` };
    const found = await this.#results.getOrCreate(answerKey(this.#files, question), build, options);
    return { ...found, kept: computed === undefined, ms: performance.now() - begun };
  }

  /** Answers a question by the model and the kernels. */
  async compute(question) {
    const vector = Array.from(await this.#model.embed([question]));
    return { vector, hits: await this.near(vector) };
  }

  /** Returns the passages that are nearest to an embedding. */
  async near(vector) {
    const hits = await this.#neighbours.nearest(Float32Array.from(vector), SHOWN);
    return hits.map(({ index, score }) => ({ score, ...passages[index] }));
  }

  /** Keeps a computed answer, unless it is kept. */
  async keep(question, answer) {
    const label = `answer: ${question}`;
    await this.#results.getOrCreate(answerKey(this.#files, question), () => JSON.stringify(answer), { as: "json", label });
  }
}

function answerKey(files, question) {
  return key("demo.answer", 2, {
    ...modelFields(files),
    question: question.trim(),
    passages: passages.map(({ text }) => text),
  });
}
