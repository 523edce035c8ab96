/** From here on people notice: one frame at 60 Hz, in milliseconds. */
const NOTICED_MS = 16;

/** Measures for how long a thread stands still, by posting a message to itself over and over. */
export class Stillness {
  #channel = new MessageChannel();
  #last = performance.now();
  #sum = 0;
  #longest = 0;

  constructor() {
    this.#channel.port1.onmessage = () => {
      this.#look();
      this.#channel.port2.postMessage(undefined);
    };
    this.#channel.port2.postMessage(undefined);
  }

  /** The gaps while `work` went on, in milliseconds: the `longest` one, and the `sum` of those above 16 ms. */
  static async during(work) {
    const stillness = new Stillness();
    await work();
    return stillness.#end();
  }

  #end() {
    this.#look();
    this.#channel.port1.close();
    return { sum: this.#sum, longest: this.#longest };
  }

  #look() {
    const now = performance.now();
    const gap = now - this.#last;
    if (gap > NOTICED_MS) this.#sum += gap;
    this.#longest = Math.max(this.#longest, gap);
    this.#last = now;
  }
}
