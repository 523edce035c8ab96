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

/** What a build made, for all who wait for it. */
export interface Made {
  content: Content;
  /** The builder's own array, for the one who called it: that spares reading a large value back. */
  own: Uint8Array<ArrayBuffer> | undefined;
}

const WAIT_MS = 30_000;

/**
 * Gets the value of `input`, or builds it, in this tab or another. `nested` makes the cache that builds get.
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
  if (typeof build !== "function") throw invalid("getOrCreate needs a function that makes the value.");
  if (!(waitMs >= 0)) throw invalid("waitMs is a number of milliseconds from 0.");
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

/** The value, if another tab stored it meanwhile. */
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
      // Waiting for what is there already would let the builder change it.
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

/** A large value that the builder made as a whole buffer is as good as a copy of it. */
function ownArray(value: Value, large: boolean): Uint8Array<ArrayBuffer> | undefined {
  if (!large) return undefined;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (!ArrayBuffer.isView(value) || !(value.buffer instanceof ArrayBuffer)) return undefined;
  return value.byteLength === value.buffer.byteLength ? new Uint8Array(value.buffer) : undefined;
}
