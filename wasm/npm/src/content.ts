import * as engine from "../engine/warmstart_wasm.js";
import { explanation, pour, reasonOf, type Sink } from "./engine.js";
import { invalid, WarmstartError } from "./errors.js";
import { decodeMetadata } from "./metadata.js";
import { Pace } from "./pace.js";
import type { Found, Head, Part, Piece } from "./store/record.js";
import type { As, Formats } from "./types.js";

/** A value and its encoded metadata: the bytes of a small one, the parts of a large one. */
export type Content = { head: Pick<Head, "size" | "metadata"> } & (
  | { bytes: Uint8Array<ArrayBuffer>; parts?: undefined }
  | { bytes?: undefined; parts: readonly (Part | Piece)[] }
);

/** A large value as it was found: its head is verified, its payload is not. */
export type Large = Extract<Found, { bytes?: undefined }>;

/** The result of reading a large value: the value, or the reason why it is damaged. */
type Verified<Result> = { value: Result; damage?: undefined } | { damage: string };

type Slices = AsyncGenerator<Uint8Array<ArrayBuffer>, undefined>;
type OnEnd = (damage?: string) => unknown;

/** The bytes that are read and hashed at a time. Shorter slices take longer, longer ones take more memory. */
const SLICE = 4 * 1024 * 1024;

/** Returns a value that needs no verification: a small one as it is if it is `fresh`, otherwise a copy. */
export async function handOut(content: Content, as: As, fresh: boolean): Promise<Formats[As]> {
  const { head, bytes, parts } = content;
  if (as === "response" || as === "blob") {
    const blobs = bytes ? [bytes] : await Promise.all(parts.map((part) => ("read" in part ? part.read() : part)));
    const { headers } = decodeMetadata(head.metadata);
    const blob = new Blob(blobs, { type: headers.get("content-type") ?? "" });
    return as === "blob" ? blob : responseOf(content, blob);
  }
  if (bytes) return formatted(fresh ? bytes : bytes.slice(), as);
  return formatted(await gathered(parts, head.size), as);
}

/** Returns a response whose body is verified while it is read. `onEnd` receives the damage, or `undefined`. */
export function lazyResponse(found: Found, onEnd: OnEnd): Response {
  const source = verifiedSlices(found, onEnd);
  const body = new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await source.return(undefined);
      },
    },
    // Reads nothing ahead of the caller.
    { highWaterMark: 0 },
  );
  return responseOf(found, body);
}

/** Verifies a large value and hands it out. */
export async function handOutVerified(found: Large, as: As): Promise<Verified<Formats[As]>> {
  if (as === "response" || as === "blob") {
    const damage = await damageOf(found);
    return damage === undefined ? { value: await handOut(found, as, true) } : { damage };
  }
  const read = await verified(found, (check) => gathered(found.parts, found.head.size, check));
  return read.damage === undefined ? { value: formatted(read.value, as) } : read;
}

/** Reads a large value, and returns the reason why it is damaged, if it is. */
export async function damageOf(found: Large): Promise<string | undefined> {
  const read = await verified(found, (check) => forEachSlice(found.parts, (slice) => pour(check, slice)));
  return read.damage;
}

/** Calls `use` with the bytes of `parts` in order, in slices that are copies, a stretch at a time. */
export async function forEachSlice(
  parts: readonly (Part | Piece)[],
  use: (slice: Uint8Array<ArrayBuffer>) => void,
): Promise<void> {
  const pace = new Pace();
  for await (const slice of slices(parts)) {
    use(slice);
    await pace.rest();
  }
}

/** Yields the bytes of `parts` in order, in slices that are copies, and reads one slice ahead. */
async function* slices(parts: readonly (Part | Piece)[]): Slices {
  let ahead: Promise<ArrayBuffer> | undefined;
  for (const read of [...planned(parts), undefined]) {
    const next = read?.();
    // The consumer handles a failure when it awaits the slice; if it has stopped, the failure is ignored.
    next?.catch(() => undefined);
    if (ahead) yield new Uint8Array(await ahead);
    ahead = next;
  }
}

function* planned(parts: readonly (Part | Piece)[]): Generator<() => Promise<ArrayBuffer>> {
  for (const part of parts) {
    const length = "byteLength" in part ? part.byteLength : part.size;
    let loading: Promise<Part> | undefined;
    for (let at = 0; at < length; at += SLICE) {
      yield async () => {
        const whole = "read" in part ? await (loading ??= part.read()) : part;
        const slice = whole.slice(at, at + SLICE);
        return slice instanceof Blob ? await slice.arrayBuffer() : slice;
      };
    }
  }
}

/** Reads all parts into one array, and feeds their bytes to `sink`. */
async function gathered(
  parts: readonly (Part | Piece)[],
  size: number,
  sink?: Sink,
): Promise<Uint8Array<ArrayBuffer>> {
  const only = parts.length === 1 ? parts[0] : undefined;
  const reader = only instanceof Blob ? byteReader(only) : undefined;
  if (reader) return inPlace(reader, size, sink);
  const whole = new Uint8Array(size);
  let at = 0;
  await forEachSlice(parts, (slice) => {
    // More bytes than the head announces are damage too: the check finds it, but they do not fit the array.
    whole.set(slice.subarray(0, Math.max(0, size - at)), Math.min(at, size));
    if (sink) pour(sink, slice);
    at += slice.length;
  });
  return whole;
}

/** Reads chunks directly into their place, because reading a Blob as a whole blocks the thread. */
async function inPlace(
  reader: ReadableStreamBYOBReader,
  size: number,
  sink?: Sink,
): Promise<Uint8Array<ArrayBuffer>> {
  const pace = new Pace();
  reading.add(reader);
  try {
    let buffer = new ArrayBuffer(size);
    for (let at = 0; at < size; ) {
      const { done, value } = await reader.read(new Uint8Array(buffer, at));
      if (done) throw new Error(`the Blob ended after ${at} of ${size} bytes`);
      if (sink) pour(sink, value);
      buffer = value.buffer;
      at += value.length;
      await pace.rest();
    }
    // Bytes behind the value are not read.
    void reader.cancel().catch(() => undefined);
    return new Uint8Array(buffer);
  } finally {
    reading.delete(reader);
  }
}

/**
 * The readers with a pending read. Chromium collects a reader that only its own pending read refers to; then that
 * read never ends.
 */
const reading = new Set<ReadableStreamBYOBReader>();

/** Returns a reader that fills the caller's buffer; `undefined` in older browsers, which have none for Blobs. */
function byteReader(blob: Blob): ReadableStreamBYOBReader | undefined {
  try {
    return blob.stream().getReader({ mode: "byob" });
  } catch {
    return undefined;
  }
}

/**
 * Yields the payload. The last slice is withheld until the checksum matches; if it does not, this fails. `onEnd`
 * receives the damage, or `undefined`, before the caller gets the last slice or the error.
 */
async function* verifiedSlices({ head, bytes, parts }: Found, onEnd: OnEnd): Slices {
  if (bytes) {
    await onEnd();
    yield bytes;
    return;
  }
  const check = new engine.Check(head.padded);
  let withheld: Uint8Array<ArrayBuffer> | undefined;
  let damage: string | undefined;
  let cause: unknown;
  try {
    for await (const slice of slices(parts)) {
      pour(check, slice);
      if (withheld) yield withheld;
      withheld = slice;
    }
    damage = reasonOf(check.finish());
  } catch (error) {
    check.free();
    damage = UNREADABLE;
    cause = error;
  }
  // A caller that retries because of the error must miss.
  await onEnd(damage);
  if (damage !== undefined) {
    const message = `The stored value is damaged (${explanation(damage)}) and was removed; fetch it again.`;
    throw new WarmstartError("damaged", message, { cause });
  }
  if (withheld) yield withheld;
}

type Check = InstanceType<typeof engine.Check>;

/** Runs `read`, which feeds every byte to the check. Returns its result, or the damage that the check found. */
async function verified<Result>(
  { head }: { head: Head },
  read: (check: Check) => Promise<Result>,
): Promise<Verified<Result>> {
  const check = new engine.Check(head.padded);
  let value: Result;
  try {
    value = await read(check);
  } catch {
    check.free();
    return { damage: UNREADABLE };
  }
  const damage = reasonOf(check.finish());
  return damage === undefined ? { value } : { damage };
}

function formatted(bytes: Uint8Array<ArrayBuffer>, as: As): Formats[As] {
  if (as === "bytes") return bytes;
  const text = decoder.decode(bytes);
  if (as === "text") return text;
  try {
    return JSON.parse(text.replace(/^\uFEFF/, "")) as unknown;
  } catch (cause) {
    throw invalid(`The stored value is not JSON: ${String(cause)}. Use another format than "json".`);
  }
}

function responseOf({ head }: Content, body: Blob | ReadableStream): Response {
  const { headers } = decodeMetadata(head.metadata);
  headers.set("content-length", String(head.size));
  return new Response(body, { headers });
}

/** The browser lost the file behind a Blob, or cannot read it. */
const UNREADABLE = "unavailable";
/** Keeps byte order marks, which are a part of the value. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
