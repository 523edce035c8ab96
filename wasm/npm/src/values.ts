import { invalid, WarmstartError } from "./errors.js";
import { type Sink, pour } from "./engine.js";
import { Pace, turn } from "./pace.js";
import { type Copy, copied } from "./pool.js";
import { type Part, PART } from "./store/record.js";
import type { Progress, Value } from "./types.js";

/** The bytes of a value: whole if it is small, else in parts. */
export type Payload = SmallPayload | LargePayload;

/** A small value. */
export interface SmallPayload {
  size: number;
  bytes: Uint8Array<ArrayBuffer>;
  parts?: undefined;
}

/** A large value. */
export interface LargePayload {
  size: number;
  bytes?: undefined;
  parts: Part[];
  /** The same bytes in the caller's memory, valid until the caller runs again. */
  source?: Uint8Array;
  /** A copy of the bytes, of which the parts are still to be made; see {@link makeParts}. */
  copy?: Copy;
  /** The bytes of Blobs that are made here; see {@link release}. */
  reserved?: number;
}

/** The settings that determine the form of a payload. */
export interface Shape {
  /** The most bytes of a small value. */
  small: number;
  /** Whether the parts of a large one are Blobs; a browser is asked in the background. */
  blobs(): boolean;
}

/** Options of reading a value. */
export interface Reading {
  signal?: AbortSignal | undefined;
  onProgress?: Progress | undefined;
  /** Whether a small value is encoded before the caller runs again, so that it need not be copied. */
  borrow?: boolean;
}

/**
 * The most bytes of Blobs that are made here and not stored yet. Chromium cannot read Blobs back of which it
 * holds more than about 500 MiB in memory, so what is beyond this is kept in buffers.
 */
const ROOM = 2 * PART;

/**
 * Bytes that are put into a Blob at once. More of them take longer than a frame where the machine is busy;
 * the more pieces there are, the longer it takes until the browser has them all.
 */
const PIECE = 4 * 1024 * 1024;

/**
 * Returns the bytes of `value`. Copies bytes that the caller could change before this function returns; returns
 * a promise if the value must be read.
 *
 * @throws WarmstartError if the value cannot be stored, or is a response that must not be
 */
export function payloadOf(value: Value, shape: Shape, reading: Reading = {}): Payload | Promise<Payload> {
  if (typeof value === "string") return ofOwn(new TextEncoder().encode(value), shape);
  if (value instanceof ArrayBuffer) return ofBorrowed(value, 0, value.byteLength, shape, reading);
  if (ArrayBuffer.isView(value)) {
    return ofBorrowed(value.buffer, value.byteOffset, value.byteLength, shape, reading);
  }
  if (value instanceof Blob) return ofBlob(value, shape, reading);
  if (value instanceof Response) return ofResponse(value, shape, reading);
  if (value instanceof ReadableStream) return ofStream(value, shape, reading);
  throw invalid(
    `The value is of type ${typeof value}; pass a string, an ArrayBuffer or a view of one, a Blob, a Response ` +
      "or a ReadableStream, and an object as JSON.stringify(object).",
  );
}

/**
 * Makes the parts of a payload that was copied, and gives its bytes to `sink`; a stretch at a time, as making
 * a Blob takes long. The copy is gone afterwards.
 */
export async function makeParts(
  payload: LargePayload,
  copy: Copy,
  sink: Sink,
  signal?: AbortSignal,
): Promise<void> {
  const { bytes } = copy;
  const pieces: Blob[] = [];
  try {
    for (let at = 0; at < bytes.length; at += PIECE) {
      await turn();
      signal?.throwIfAborted();
      const piece = bytes.subarray(at, at + PIECE);
      pour(sink, piece);
      pieces.push(new Blob([piece]));
    }
    await turn();
    payload.parts.push(new Blob(pieces));
  } finally {
    freeCopy(payload);
  }
}

/** Releases the payload's memory, once its Blobs are stored or will not be. */
export function release(payload: Payload): void {
  if (!payload.parts) return;
  freeCopy(payload);
  if (payload.reserved === undefined) return;
  unstored -= payload.reserved;
  delete payload.reserved;
}

function freeCopy(payload: LargePayload): void {
  payload.copy?.free();
  delete payload.copy;
}

/** Whether reading `value` depends on the network or other code, and so may never end. */
export function isStream(value: Value): boolean {
  return value instanceof Response || value instanceof ReadableStream;
}

function ofBorrowed(
  buffer: ArrayBufferLike,
  offset: number,
  length: number,
  shape: Shape,
  { borrow = false }: Reading,
): Payload {
  if ((buffer as { detached?: boolean }).detached) {
    throw invalid(
      "The buffer was transferred, so its bytes are gone; store it before transferring it.",
    );
  }
  const bytes = new Uint8Array(buffer, offset, length);
  const size = bytes.length;
  if (size <= shape.small) {
    const isOwn = borrow && bytes.buffer instanceof ArrayBuffer;
    return { size, bytes: isOwn ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes) };
  }
  // Blobs do not accept shared memory.
  if (!shape.blobs() || !(bytes.buffer instanceof ArrayBuffer)) return ofOwn(new Uint8Array(bytes), shape);
  // The caller may change the bytes before the Blobs are made.
  if (size > PIECE && reserve(size)) {
    const copy = copied(bytes);
    if (copy) return { size, parts: [], copy, reserved: size };
    unstored -= size;
  }
  return { size, ...cut(bytes as Uint8Array<ArrayBuffer>, shape), source: bytes };
}

function ofOwn(bytes: Uint8Array<ArrayBuffer>, shape: Shape): Payload {
  const size = bytes.length;
  if (size <= shape.small) return { size, bytes };
  if (!shape.blobs() && size <= PART && size === bytes.buffer.byteLength)
    return { size, parts: [bytes.buffer] };
  return { size, ...cut(bytes, shape), source: bytes };
}

function cut(bytes: Uint8Array<ArrayBuffer>, shape: Shape): { parts: Part[]; reserved: number } {
  const parts: Part[] = [];
  const asBlob = shape.blobs() && reserve(bytes.length);
  const reserved = asBlob ? bytes.length : 0;
  for (let at = 0; at < bytes.length; at += PART) {
    const part = bytes.subarray(at, at + PART);
    parts.push(asBlob ? new Blob([part]) : part.slice().buffer);
  }
  return { parts, reserved };
}

let unstored = 0;

function reserve(bytes: number): boolean {
  if (unstored + bytes > ROOM) return false;
  unstored += bytes;
  return true;
}

async function ofBlob(blob: Blob, shape: Shape, { signal }: Reading): Promise<Payload> {
  const size = blob.size;
  if (size <= shape.small) return { size, bytes: new Uint8Array(await blob.arrayBuffer()) };
  const parts: Part[] = [];
  for (let at = 0; at < size; at += PART) {
    signal?.throwIfAborted();
    const part = size <= PART ? blob : blob.slice(at, at + PART);
    parts.push(shape.blobs() ? part : await part.arrayBuffer());
  }
  return { size, parts };
}

function ofResponse(response: Response, shape: Shape, reading: Reading): Promise<Payload> {
  const { status, url } = response;
  if (!response.ok || status === 206) {
    const what =
      status === 206
        ? "with a part of the file (206), which is not stored; request it without a Range header"
        : response.type === "opaque" || response.type === "opaqueredirect"
          ? `with an ${response.type} response, whose contents are hidden and not stored; request it with CORS`
          : `with status ${`${status} ${response.statusText}`.trim()}, which is not stored; check the URL`;
    throw new WarmstartError("http_error", `${url || "The server"} responded ${what}.`, { status, url });
  }
  if (response.bodyUsed || response.body?.locked) {
    throw invalid("The body of this Response was already read; store response.clone() before reading it.");
  }
  const announced = announcedLength(response);
  if (!response.body) return complete(new Gatherer(shape, announced), announced, url);
  return gather(response.body, new Gatherer(shape, announced), announced, reading, url);
}

function ofStream(stream: ReadableStream<Uint8Array>, shape: Shape, reading: Reading): Promise<Payload> {
  if (stream.locked)
    throw invalid("This ReadableStream is locked to another reader; store it before reading it.");
  return gather(stream, new Gatherer(shape, undefined), undefined, reading, "");
}

function announcedLength(response: Response): number | undefined {
  const text = response.headers.get("content-length");
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}

async function gather(
  stream: ReadableStream<Uint8Array>,
  gatherer: Gatherer,
  announced: number | undefined,
  { signal, onProgress }: Reading,
  url: string,
): Promise<Payload> {
  signal?.throwIfAborted();
  const reader = stream.getReader();
  const pace = new Pace();
  const stop = (): void => void reader.cancel(signal?.reason).catch(() => undefined);
  signal?.addEventListener("abort", stop, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal?.throwIfAborted();
      if (done) break;
      if (!(value instanceof Uint8Array)) {
        stop();
        throw invalid(
          "A chunk of the ReadableStream is not a Uint8Array; pipe text through a TextEncoderStream.",
        );
      }
      gatherer.add(value as Uint8Array<ArrayBuffer>);
      // The announced length may be that of compressed bytes.
      const total = announced !== undefined && announced >= gatherer.size ? announced : undefined;
      onProgress?.(gatherer.size, total);
      // A stream that always has data would block the thread.
      if (pace.due) await pace.rest();
    }
    return await complete(gatherer, announced, url);
  } catch (error) {
    gatherer.abandon();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

/**
 * Accepts more bytes than announced: browsers hide that the announced length was that of compressed bytes.
 */
async function complete(gatherer: Gatherer, announced: number | undefined, url: string): Promise<Payload> {
  if (announced !== undefined && gatherer.size < announced) {
    const what = `${url || "The body"} ended after ${gatherer.size} of ${announced} bytes.`;
    throw new WarmstartError("truncated", `${what} It is not stored; request it again.`, { url });
  }
  return gatherer.finish();
}

/** Puts the chunks of a stream into parts, without holding them twice. */
class Gatherer {
  size = 0;
  readonly #shape: Shape;
  readonly #announced: number;
  readonly #parts: Part[] = [];
  #reserved = 0;
  #asBlob = false;
  #pieces: Blob[] = [];
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  #inChunks = 0;
  #inPart = 0;

  constructor(shape: Shape, announced: number | undefined) {
    this.#shape = shape;
    this.#announced = announced ?? Infinity;
  }

  add(chunk: Uint8Array<ArrayBuffer>): void {
    for (let rest = chunk; rest.length > 0;) {
      if (this.#inPart === 0) this.#beginPart();
      const taken = rest.subarray(0, PART - this.#inPart);
      rest = rest.subarray(taken.length);
      this.#chunks.push(taken);
      this.#inChunks += taken.length;
      this.#inPart += taken.length;
      this.size += taken.length;
      if (this.#asBlob && this.#inChunks >= PIECE) this.#closePiece();
      if (this.#inPart === PART) this.#closePart();
    }
  }

  finish(): Payload {
    const { size } = this;
    if (size <= this.#shape.small) {
      this.abandon();
      return { size, bytes: joined(this.#chunks, size) };
    }
    if (this.#inPart > 0) this.#closePart();
    // Without an announced length, only now is it known that there is room.
    if (this.#shape.blobs() && this.#reserved === 0 && reserve(size)) {
      this.#reserved = size;
      this.#parts.forEach((part, at) => (this.#parts[at] = new Blob([part])));
    }
    return { size, parts: this.#parts, reserved: this.#reserved };
  }

  /** Discards the payload. */
  abandon(): void {
    unstored -= this.#reserved;
    this.#reserved = 0;
  }

  /**
   * Decides whether the next part is a Blob. Chromium also fails where a large value is half Blobs, half
   * buffers.
   */
  #beginPart(): void {
    if (this.size > 0 && !this.#asBlob) return;
    const expected = this.size < this.#announced ? this.#announced : this.size + PART;
    const more = Math.max(0, expected - this.#reserved);
    this.#asBlob = this.#shape.blobs() && reserve(more);
    if (this.#asBlob) this.#reserved += more;
  }

  #closePiece(): void {
    if (this.#chunks.length > 0) this.#pieces.push(new Blob(this.#chunks));
    this.#chunks = [];
    this.#inChunks = 0;
  }

  #closePart(): void {
    if (this.#asBlob) {
      this.#closePiece();
      this.#parts.push(new Blob(this.#pieces));
      this.#pieces = [];
    } else {
      this.#parts.push(joined(this.#chunks, this.#inPart).buffer);
      this.#chunks = [];
      this.#inChunks = 0;
    }
    this.#inPart = 0;
  }
}

function joined(chunks: Uint8Array<ArrayBuffer>[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
