/** The worker that runs a visit and answers questions, and what it tells. */
export class Engine {
  #worker = new Worker(new URL("../engine/worker.js", import.meta.url), { type: "module" });
  #waiting = new Map();

  /** `onMessage` receives every message: see `engine/worker.js`. */
  constructor(onMessage) {
    this.#worker.onmessage = ({ data }) => {
      onMessage(data);
      const { resolve, reject } = this.#waiting.get(data.type) ?? {};
      if (resolve) resolve(data);
      // A question that fails says so itself.
      else if (data.type === "failed" && data.id === undefined) this.#fail(data.message);
    };
    this.#worker.onerror = ({ message }) => {
      const text = message ?? "the worker could not be loaded";
      onMessage({ type: "failed", message: text });
      this.#fail(text);
    };
  }

  send(message) {
    this.#worker.postMessage(message);
  }

  /** Sends a message, and resolves with the next message of a type. */
  ask(message, type) {
    const reply = Promise.withResolvers();
    this.#waiting.set(type, reply);
    this.send(message);
    return reply.promise.finally(() => this.#waiting.delete(type));
  }

  end() {
    this.#worker.terminate();
  }

  #fail(message) {
    for (const { reject } of this.#waiting.values()) reject(new Error(message));
  }
}
