/** From here on people notice: one frame at 60 Hz, in milliseconds. */
const NOTICED_MS = 16;

/** Measures for how long a thread stands still, by posting a message to itself over and over. */
export class Stillness {
  #channel = new MessageChannel();
  #last = performance.now();
  #sum = 0;

  constructor() {
    this.#channel.port1.onmessage = () => {
      this.#look();
      this.#channel.port2.postMessage(undefined);
    };
    this.#channel.port2.postMessage(undefined);
  }

  /** The gaps above 16 ms while `work` went on, added up, in milliseconds. */
  static async during(work) {
    const stillness = new Stillness();
    await work();
    return stillness.#end();
  }

  #end() {
    this.#look();
    this.#channel.port1.close();
    return this.#sum;
  }

  #look() {
    const now = performance.now();
    if (now - this.#last > NOTICED_MS) this.#sum += now - this.#last;
    this.#last = now;
  }
}
