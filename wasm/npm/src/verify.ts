import { type Engine, pour, type Sink } from "./engine.js";
import { WarmstartError } from "./errors.js";
import { feed, feedNow, Pace } from "./pace.js";
import { explanation, reasonOf } from "./reasons.js";
import type { Found, Part, Piece } from "./store/store.js";

/** A large value as it was found: its head is verified, its payload is not. */
export type Large = Extract<Found, { head: Uint8Array }> & { bytes?: undefined };

/** The result of reading a large value: the value, or the reason why it is damaged. */
export type Verified<Result> = { value: Result; damage?: undefined } | { damage: string };

/** The bytes of a Blob that are read at a time. Fewer take longer, more take more memory. */
const SLICE = 4 * 1024 * 1024;

/** Reads the payload into one array, and verifies it. */
export async function verifiedBytes(
  engine: Engine,
  found: Large,
): Promise<Verified<Uint8Array<ArrayBuffer>>> {
  const only = found.parts.length === 1 ? found.parts[0] : undefined;
  const check = new engine.Check(found.head);
  return settled(engine, check, async () => {
    if (only instanceof Blob) return bytesOfBlob(only, check);
    const pace = new Pace();
    const whole = new Uint8Array(found.size);
    let at = 0;
    for await (const slice of slices(found.parts)) {
      // More bytes than the head announces are damage too: the check finds it, but they do not fit the array.
      const place = whole.subarray(at, at + slice.length);
      place.set(slice.subarray(0, place.length));
      pour(check, place);
      if (place.length < slice.length) pour(check, slice.subarray(place.length));
      at += slice.length;
      if (pace.due) await pace.rest();
    }
    return whole;
  });
}

/**
 * Reads all bytes of a Blob into one array, and feeds them to `sink`. Reads chunks directly into their place,
 * because reading a Blob as a whole blocks the thread.
 */
export async function bytesOfBlob(blob: Blob, sink?: Sink): Promise<Uint8Array<ArrayBuffer>> {
  const pace = new Pace();
  const reader = byteReader(blob);
  if (!reader) {
    const whole = new Uint8Array(await blob.arrayBuffer());
    if (sink) await feed(sink, whole, pace);
    return whole;
  }
  reading.add(reader);
  try {
    let buffer = new ArrayBuffer(blob.size);
    for (let at = 0; at < blob.size;) {
      const { done, value } = await reader.read(new Uint8Array(buffer, at));
      if (done) throw new Error(`the Blob ended after ${at} of ${blob.size} bytes`);
      if (sink) pour(sink, value);
      buffer = value.buffer;
      at += value.length;
      if (pace.due) await pace.rest();
    }
    // What is behind it is not looked for.
    void reader.cancel().catch(() => undefined);
    return new Uint8Array(buffer);
  } finally {
    reading.delete(reader);
  }
}

/**
 * The readers that are waited for. Where nothing but that wait refers to it, Chromium collects such a reader
 * as garbage; then its bytes never come, and nothing says so.
 */
const reading = new Set<ReadableStreamBYOBReader>();

/** A reader that writes where it is told; older browsers have none for Blobs. */
function byteReader(blob: Blob): ReadableStreamBYOBReader | undefined {
  try {
    return blob.stream().getReader({ mode: "byob" });
  } catch {
    return undefined;
  }
}

/** Reads everything and says what is wrong with it, if anything is. */
export async function damageOf(engine: Engine, found: Large): Promise<string | undefined> {
  const check = new engine.Check(found.head);
  const pace = new Pace();
  const result = await settled(engine, check, async () => {
    for await (const slice of slices(found.parts)) await feed(check, slice, pace);
  });
  return result.damage;
}

/**
 * The payload as a stream. Nothing is read before it is asked for. The last chunk is withheld until the
 * checksum matches; if it does not, `onDamage` is told and the stream fails.
 */
export function verifiedStream(
  engine: Engine,
  found: Large,
  onDamage: (reason: string) => Promise<void>,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let check: InstanceType<Engine["Check"]> | undefined;
  let source: AsyncGenerator<Uint8Array<ArrayBuffer>> | undefined;
  let withheld: Uint8Array<ArrayBuffer> | undefined;
  let cancelled = false;

  const fail = async (
    controller: ReadableStreamDefaultController,
    reason: string,
    cause?: unknown,
  ): Promise<void> => {
    // A caller that retries because of the error must miss.
    await onDamage(reason);
    const why = explanation(engine, reason);
    const message = `The stored value is damaged (${why}) and was removed; fetch it again.`;
    controller.error(new WarmstartError("damaged", message, { cause }));
  };
  return new ReadableStream(
    {
      async pull(controller) {
        check ??= new engine.Check(found.head);
        source ??= slices(found.parts);
        for (;;) {
          let next: IteratorResult<Uint8Array<ArrayBuffer>, undefined>;
          try {
            next = await source.next();
          } catch (error) {
            check.free();
            return fail(controller, UNREADABLE, error);
          }
          if (cancelled) return check.free();
          const ready = withheld;
          if (next.done) {
            const damage = reasonOf(engine, check.finish());
            if (damage !== undefined) return fail(controller, damage);
            if (ready) controller.enqueue(ready);
            return controller.close();
          }
          feedNow(check, next.value, UNHURRIED);
          withheld = next.value;
          if (ready) return controller.enqueue(ready);
        }
      },
      async cancel() {
        cancelled = true;
        await source?.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Yields the bytes of `parts` in order, in slices, and reads one slice ahead. A slice of memory is a copy, so
 * that callers cannot change the store's bytes.
 */
export async function* slices(
  parts: readonly (Part | Piece)[],
  from = 0,
): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
  const reads = planned(parts, from);
  let ahead = start(reads.next().value);
  while (ahead) {
    const slice = new Uint8Array(await ahead);
    ahead = start(reads.next().value);
    yield slice;
  }
}

function* planned(
  parts: readonly (Part | Piece)[],
  from: number,
): Generator<() => Promise<ArrayBuffer>, undefined> {
  let skip = from;
  for (const part of parts) {
    const length = "byteLength" in part ? part.byteLength : part.size;
    let loading: Promise<Part> | undefined;
    for (let at = Math.min(skip, length); at < length; at += SLICE) {
      yield async () => {
        const whole = "read" in part ? await (loading ??= part.read()) : part;
        const slice = whole.slice(at, at + SLICE);
        return slice instanceof Blob ? await slice.arrayBuffer() : slice;
      };
    }
    skip = Math.max(0, skip - length);
  }
}

function start(read: (() => Promise<ArrayBuffer>) | undefined): Promise<ArrayBuffer> | undefined {
  const reading = read?.();
  // The consumer handles a failure when it awaits the slice; if it has stopped, the failure is ignored.
  reading?.catch(() => undefined);
  return reading;
}

/** Runs `read`, which gives every byte to `check`, and asks what the check found. */
async function settled<Result>(
  engine: Engine,
  check: InstanceType<Engine["Check"]>,
  read: () => Promise<Result>,
): Promise<Verified<Result>> {
  let value: Result;
  try {
    value = await read();
  } catch {
    check.free();
    return { damage: UNREADABLE };
  }
  const damage = reasonOf(engine, check.finish());
  return damage === undefined ? { value } : { damage };
}

/** The browser lost the file behind a Blob, or cannot read it. */
const UNREADABLE = "unavailable";

/** For slices that are small enough to be checked in one go. */
const UNHURRIED = {
  get due() {
    return false;
  },
} as Pace;
