import type { Core } from "./core.js";
import { invalid } from "./errors.js";
import type { Flight } from "./flight.js";
import { checkedAs, type Content, handOut } from "./handout.js";
import { idOf, keyBytes, type KeyInput } from "./key.js";
import type { Cache } from "./cache.js";
import { encodeMetadata } from "./metadata.js";
import type { As, Build, CreateOptions, Formats, Value } from "./types.js";
import { payloadOf } from "./values.js";
import { hex } from "./store/name.js";

/** The result of a build, for all waiting calls. */
export interface Made {
  content: Content;
  /** The builder's own array, for the call that built, which then need not read a large value back. */
  own: Uint8Array<ArrayBuffer> | undefined;
}

const WAIT_MS = 30_000;

/**
 * Returns the value of `input`, or builds it in this tab or another. `nested` makes the cache for builds.
 */
export async function getOrCreate(
  core: Core,
  input: KeyInput,
  build: Build,
  options: CreateOptions,
  within: Flight | undefined,
  nested: (flight: Flight) => Cache,
): Promise<Formats[As]> {
  const { signal, onProgress, waitMs = WAIT_MS } = options;
  const as = checkedAs(options.as ?? "bytes");
  if (typeof build !== "function")
    throw invalid(`build is of type ${typeof build}; pass a function that returns the value.`);
  if (!(waitMs >= 0)) throw invalid(`waitMs is ${waitMs}; pass a number of milliseconds from 0.`);
  const key = keyBytes(input);
  signal?.throwIfAborted();

  const hit = await core.read(input, key, as, false);
  if (hit) return hit.value;
  const { result, shared } = await core.flights.obtain({
    name: hex(core.engine.digest_of(key)),
    within,
    waitMs,
    signal,
    onProgress,
    look: () => look(core, key),
    build: (flight) => make(core, input, key, build, options, flight, nested(flight)),
  });
  if (shared) core.store.countShared();
  else if (as === "bytes" && result.own) return result.own;
  return handOut(core.engine, result.content, as, false);
}

/** Returns the value if another tab stored it meanwhile. */
async function look(core: Core, key: Uint8Array): Promise<Made | undefined> {
  const content = await core.peek(key);
  return content && { content, own: undefined };
}

async function make(
  core: Core,
  input: KeyInput,
  key: Uint8Array,
  build: Build,
  options: CreateOptions,
  flight: Flight,
  cache: Cache,
): Promise<Made> {
  const { signal, onProgress } = flight;
  const began = performance.now();
  const value = await build({ signal, onProgress, cache });
  try {
    const metadata = encodeMetadata(input, value, options);
    const taken = payloadOf(value, core.shape, { signal, onProgress });
    let made: Made | undefined;
    await core.order.run(idOf(input), "write", !(taken instanceof Promise), async (ticket) => {
      // Awaiting an available value would let the builder change it.
      const payload = taken instanceof Promise ? await taken : taken;
      made = { content: { ...payload, metadata }, own: ownArray(value, payload.size > core.shape.small) };
      const buildMs = performance.now() - began;
      core.store.countBuild(buildMs);
      return core.write(ticket, key, { payload, metadata, buildMs });
    });
    return made as Made;
  } catch (error) {
    if (value instanceof Response && !value.bodyUsed) void value.body?.cancel().catch(() => undefined);
    throw error;
  }
}

/** Returns a large value that is a whole buffer, which can be returned without a copy. */
function ownArray(value: Value, large: boolean): Uint8Array<ArrayBuffer> | undefined {
  if (!large) return undefined;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (!ArrayBuffer.isView(value) || !(value.buffer instanceof ArrayBuffer)) return undefined;
  return value.byteLength === value.buffer.byteLength ? new Uint8Array(value.buffer) : undefined;
}
