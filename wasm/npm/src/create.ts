import { type Content, damageOf, handOut } from "./content.js";
import { checkedAs, type Core } from "./core.js";
import { invalid } from "./errors.js";
import type { Flight } from "./flight.js";
import { idOf, type KeyInput } from "./key.js";
import { encodeMetadata } from "./metadata.js";
import { payloadOf } from "./payload.js";
import type { As, Build, CreateOptions, Formats, Value } from "./types.js";

const WAIT_MS = 30_000;

/** Returns the value of `input`, or builds it in this tab or another. */
export async function getOrCreate(
  core: Core,
  input: KeyInput,
  build: Build,
  options: CreateOptions,
): Promise<Formats[As]> {
  const { signal, onProgress, waitMs = WAIT_MS } = options;
  const as = checkedAs(options.as ?? "bytes");
  if (typeof build !== "function")
    throw invalid(`build is of type ${typeof build}; pass a function that returns the value.`);
  if (!(waitMs >= 0)) throw invalid(`waitMs is ${waitMs}; pass a number of milliseconds from 0.`);
  const id = idOf(input);
  signal?.throwIfAborted();

  const hit = await core.read(id, as, false);
  if (hit) return hit.value;
  /** Returns the value if another tab stored it meanwhile. */
  const look = async (): Promise<Content | undefined> => {
    const found = await core.peek(id);
    // The build that follows replaces a damaged value.
    const isBad = typeof found === "string" || (found.parts && (await damageOf(found)) !== undefined);
    return isBad ? undefined : found;
  };
  /** Stores what was built, and returns it. */
  const store = async (value: Value, flight: Flight, began: number): Promise<Content> => {
    const metadata = encodeMetadata(input, value, options);
    const reading = { signal: flight.signal, onProgress: flight.onProgress };
    const taken = payloadOf(value, { ...reading, blobs: core.store.storesBlobs });
    let content: Content | undefined;
    await core.order.run(id, "write", !(taken instanceof Promise), async (ticket) => {
      // Awaiting an available value would let the builder change it.
      const payload = taken instanceof Promise ? await taken : taken;
      const buildMs = performance.now() - began;
      core.counters.builds += 1;
      core.counters.buildMs += buildMs;
      const writing = core.write(ticket, id, { payload, metadata, buildMs }, flight.signal);
      const head = { size: payload.size, metadata };
      // The builder may change a small value from now on.
      content = payload.bytes ? { head, bytes: payload.bytes.slice() } : { head, parts: payload.parts };
      return writing;
    });
    return content as Content;
  };
  let isShared = true;
  const content = await core.flights.obtain({
    id,
    waitMs,
    signal,
    onProgress,
    look,
    build: async (flight) => {
      isShared = false;
      const began = performance.now();
      const value = await build({ signal: flight.signal, onProgress: flight.onProgress });
      try {
        return await store(value, flight, began);
      } catch (error) {
        if (value instanceof Response && !value.bodyUsed) void value.body?.cancel().catch(() => undefined);
        throw error;
      }
    },
  });
  if (isShared) core.counters.shared += 1;
  return handOut(content, as, false);
}
