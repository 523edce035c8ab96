import { key } from "../warmstart/dist/index.js";
import { modelFields } from "./files.js";
import { passages } from "./passages.js";

/** The number of passages in an answer. */
const SHOWN = 5;

/** Answers questions, and caches the answers. */
export class Answers {
  /** Places a vector on the map; set once there is a map. */
  project = undefined;
  #cache;
  #files;
  #model;
  #neighbours;

  constructor({ cache, files, model, neighbours }) {
    this.#cache = cache;
    this.#files = files;
    this.#model = model;
    this.#neighbours = neighbours;
  }

  /** Returns the cached answer of a question, if there is one. Needs no model. */
  static async kept(cache, files, question) {
    const found = await cache.get(answerKey(files, question), "json");
    return found && { ...found, kept: true };
  }

  /** Answers a question: from the cache, or by the model. */
  async to(question) {
    const begun = performance.now();
    let computed;
    const found = await this.#cache.getOrCreate(
      answerKey(this.#files, question),
      async () => {
        computed = await this.compute(question);
        return encode(computed);
      },
      { as: "json", label: `answer: ${question}` },
    );
    const answer = computed ?? { ...found, kept: true };
    return { ...answer, ms: performance.now() - begun, at: this.project?.(answer.vector) };
  }

  /** Answers a question by the model and the kernels. */
  async compute(question) {
    const begun = performance.now();
    const vector = await this.#model.embed([question]);
    const understood = performance.now();
    const hits = await this.#neighbours.nearest(vector, SHOWN);
    return {
      hits: hits.map(({ index, score }) => ({ index, score, ...passages[index] })),
      vector: Array.from(vector),
      ms: performance.now() - begun,
      searchMs: performance.now() - understood,
      kept: false,
    };
  }

  /** Caches a computed answer, unless it is cached. */
  async keep(question, answer) {
    const label = `answer: ${question}`;
    await this.#cache.getOrCreate(answerKey(this.#files, question), () => encode(answer), { label });
  }
}

function answerKey(files, question) {
  return key("demo.answer", 1, {
    ...modelFields(files),
    question: question.trim(),
    passages: passages.map(({ text }) => text),
  });
}

function encode({ hits, vector }) {
  return JSON.stringify({ hits, vector });
}
