/** The longest time that a stretch of work blocks the thread, in milliseconds: half a frame. */
const STRETCH_MS = 8;

/** Divides long work into short stretches, so that the page stays responsive. */
export class Pace {
  #since = performance.now();

  /** Yields to the event loop if this stretch has lasted long enough, and then begins the next one. */
  async rest(): Promise<void> {
    if (performance.now() - this.#since < STRETCH_MS) return;
    await turn();
    this.#since = performance.now();
  }
}

/** Waits for the next turn of the event loop. A timer would take 4 ms, and a second in a hidden tab. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
