import { pour, type Sink } from "./engine.js";

/** The longest time that a stretch of work blocks the thread, in milliseconds: half a frame. */
const STRETCH_MS = 8;

/** Divides long work into short stretches, so that the page stays responsive. */
export class Pace {
  #since = performance.now();

  /** Whether this stretch has lasted long enough. */
  get due(): boolean {
    return performance.now() - this.#since >= STRETCH_MS;
  }

  /** Lets everything else run, then begins the next stretch. */
  async rest(): Promise<void> {
    await turn();
    this.#since = performance.now();
  }
}

/** Bytes that are processed between two checks of the clock: a small part of a stretch. */
const BITE = 512 * 1024;

/** Feeds all of `bytes` to `sink`, with pauses. `bytes` must not change meanwhile. */
export async function feed(sink: Sink, bytes: Uint8Array, pace: Pace): Promise<void> {
  for (let at = 0; at < bytes.length; at += BITE) {
    if (pace.due) await pace.rest();
    pour(sink, bytes.subarray(at, at + BITE));
  }
}

const waiting: (() => void)[] = [];
let channel: MessageChannel | undefined;

/** The next turn of the event loop. Timers would wait for 4 ms, and for a second in a hidden tab. */
export function turn(): Promise<void> {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => waiting.shift()?.();
  }
  const { port2 } = channel;
  return new Promise((resolve) => {
    waiting.push(resolve);
    port2.postMessage(undefined);
  });
}
