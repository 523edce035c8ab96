import { forEachSlice } from "./content.js";
import { pour, type Sink } from "./engine.js";
import { invalid, WarmstartError } from "./errors.js";
import { tell } from "./listener.js";
import { Pace, turn } from "./pace.js";
import { type Part, PART, SMALL } from "./store/record.js";
import type { Progress, Value } from "./types.js";

/** The bytes of a value: whole if it is small, else in parts. */
export type Payload = SmallPayload | LargePayload;

/** A small value. */
interface SmallPayload {
  size: number;
  bytes: Uint8Array<ArrayBuffer>;
  parts?: undefined;
}

/** A large value. */
interface LargePayload {
  size: number;
  bytes?: undefined;
  parts: Part[];
  /** Bytes of which the parts are still to be made, see {@link fill}. */
  source?: Uint8Array;
  /** The memory of `source`, if the bytes were copied. */
  copy?: ArrayBuffer;
  /** The bytes of Blobs that are made here; see {@link release}. */
  reserved: number;
}

/** Options of reading a value. */
export interface Reading {
  /** Whether the parts of a large value are Blobs. */
  blobs: boolean;
  signal?: AbortSignal | undefined;
  onProgress?: Progress | undefined;
  /** Whether an `ArrayBuffer` is handed over. */
  transfer?: boolean | undefined;
}

/**
 * The most bytes of Blobs that are made here and not stored yet; further payloads are kept in buffers. Chromium cannot
 * read Blobs back once it holds more than about 500 MiB of them in memory.
 */
const ROOM = 2 * PART;
/**
 * The bytes that are put into a Blob at once. On a busy machine, more take longer than a frame; fewer make more pieces,
 * which take the browser longer.
 */
const PIECE = 4 * 1024 * 1024;
/** The largest buffer that is copied, so that the caller may change it after the call, in bytes. */
const COPIED = 32 * 1024 * 1024;
/** The time that the memory of a copy is kept, in milliseconds: allocating takes longer than copying. */
const KEPT_MS = 5000;

/**
 * Returns the bytes of `value`; a promise if the value must be read. Copies a buffer of more than 4 and at most 32 MiB.
 * Does not copy a smaller one: the caller encodes it, or calls {@link fill}, before other code can change it. Nor a
 * larger one, which must not change until it is stored.
 *
 * @throws WarmstartError if the value cannot be stored, or is a response that must not be
 */
export function payloadOf(value: Value, reading: Reading): Payload | Promise<Payload> {
  if (typeof value === "string") return ofBytes(new TextEncoder().encode(value), true);
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return ofBuffer(value, reading);
  if (value instanceof Blob) return ofBlob(value, reading);
  if (value instanceof Response) return ofResponse(value, reading);
  if (value instanceof ReadableStream) return gather(value, undefined, reading, "");
  const what = `The value is of type ${typeof value}`;
  throw invalid(`${what}; pass text, bytes, a Blob, a Response, a stream, or JSON.stringify(object).`);
}

/**
 * Gives the bytes of a payload to `sink`, and makes the parts that are still to be made; a stretch at a time. The first
 * stretch is over before this function first waits.
 */
export async function fill(
  payload: LargePayload,
  sink: Sink,
  { blobs, signal }: { blobs: boolean; signal: AbortSignal | undefined },
): Promise<void> {
  const { source, size } = payload;
  if (source === undefined) {
    return forEachSlice(payload.parts, (slice) => {
      signal?.throwIfAborted();
      pour(sink, slice);
    });
  }
  const asBlobs = blobs && unstored + size <= ROOM;
  if (asBlobs) unstored += payload.reserved = size;
  for (let from = 0; from < size; from += PART) {
    const end = Math.min(from + PART, size);
    const buffer = asBlobs ? undefined : new Uint8Array(end - from);
    const pieces: Blob[] = [];
    for (let at = from; at < end; at += PIECE) {
      if (at > 0) await turn();
      signal?.throwIfAborted();
      const piece = source.subarray(at, Math.min(at + PIECE, end)) as Uint8Array<ArrayBuffer>;
      pour(sink, piece);
      if (buffer) buffer.set(piece, at - from);
      else pieces.push(new Blob([piece]));
    }
    payload.parts.push(buffer ? buffer.buffer : pieces.length === 1 ? pieces[0]! : new Blob(pieces));
  }
  freeCopy(payload);
}

let unstored = 0;

/** Releases the payload's memory, once its Blobs are stored or will not be. */
export function release(payload: Payload): void {
  if (!payload.parts) return;
  freeCopy(payload);
  unstored -= payload.reserved;
  payload.reserved = 0;
}

function ofBuffer(value: ArrayBuffer | ArrayBufferView, reading: Reading): Payload {
  const buffer: ArrayBufferLike = ArrayBuffer.isView(value) ? value.buffer : value;
  if ((buffer as { detached?: boolean }).detached)
    throw invalid("The buffer was transferred, so its bytes are gone; store it before transferring it.");
  const isShared = !(buffer instanceof ArrayBuffer);
  // Blobs accept no memory that is shared or resizable.
  const isCopied = isShared || (buffer as { resizable?: boolean }).resizable === true;
  const isOwn = reading.transfer === true && !isShared;
  const given = isOwn ? structuredClone(value, { transfer: [buffer] }) : value;
  const bytes = ArrayBuffer.isView(given)
    ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
    : new Uint8Array(given);
  return ofBytes((isCopied ? new Uint8Array(bytes) : bytes) as Uint8Array<ArrayBuffer>, isOwn || isCopied);
}

function ofBytes(bytes: Uint8Array<ArrayBuffer>, isOwn: boolean): Payload {
  const size = bytes.length;
  if (size <= SMALL) return { size, bytes };
  if (isOwn || size <= PIECE || size > COPIED) return { size, parts: [], source: bytes, reserved: 0 };
  const copy = spare !== undefined && spare.byteLength >= size ? spare : new ArrayBuffer(size);
  spare = undefined;
  const source = new Uint8Array(copy, 0, size);
  source.set(bytes);
  return { size, parts: [], source, copy, reserved: 0 };
}

let spare: ArrayBuffer | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

function freeCopy(payload: LargePayload): void {
  delete payload.source;
  if (payload.copy === undefined) return;
  spare = payload.copy;
  delete payload.copy;
  clearTimeout(timer);
  timer = setTimeout(() => (spare = undefined), KEPT_MS);
}

async function ofBlob(blob: Blob, { blobs, signal }: Reading): Promise<Payload> {
  const { size } = blob;
  if (size <= SMALL) return { size, bytes: new Uint8Array(await blob.arrayBuffer()) };
  const parts: Part[] = [];
  for (let at = 0; at < size; at += PART) {
    signal?.throwIfAborted();
    const part = size <= PART ? blob : blob.slice(at, at + PART);
    parts.push(blobs ? part : await part.arrayBuffer());
  }
  return { size, parts, reserved: 0 };
}

function ofResponse(response: Response, reading: Reading): Promise<Payload> {
  const { status, url } = response;
  if (!response.ok || status === 206) {
    const what = `${url || "The server"} responded with status ${status}, which is not stored`;
    const way = { 0: "request it with CORS", 206: "request the whole file" }[status] ?? "check the URL, or try later";
    throw new WarmstartError("http_error", `${what}; ${way}.`, { status, url });
  }
  if (response.bodyUsed)
    throw invalid("The body of this Response was already read; store response.clone() before reading it.");
  return gather(response.body ?? new Blob().stream(), lengthIn(response.headers), reading, url);
}

/** Returns the length that headers announce. */
export function lengthIn(headers: Headers): number | undefined {
  const length = headers.get("content-length") ?? "";
  return /^\d+$/.test(length) ? Number(length) : undefined;
}

/** Reads a stream into a Blob, whose bytes the browser keeps outside this thread. */
async function gather(
  stream: ReadableStream<Uint8Array>,
  announced: number | undefined,
  reading: Reading,
  url: string,
): Promise<Payload> {
  const { signal, onProgress } = reading;
  signal?.throwIfAborted();
  if (stream.locked) throw invalid("The stream is locked to another reader; store it before reading it.");
  const pace = new Pace();
  let size = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (!(chunk instanceof Uint8Array))
        throw invalid("A chunk of the stream is not a Uint8Array; pipe text through a TextEncoderStream.");
      size += chunk.length;
      controller.enqueue(chunk);
      // The announced length may be that of compressed bytes.
      const total = announced !== undefined && announced >= size ? announced : undefined;
      if (onProgress) tell(onProgress, size, total);
      // A stream that always has data would block the thread.
      return pace.rest();
    },
  });
  const gathered = new Response(counted.readable).blob();
  // A failure also rejects the pipe, which is awaited.
  gathered.catch(() => undefined);
  await stream.pipeTo(counted.writable, signal ? { signal } : {});
  // More bytes than announced are accepted: browsers hide that the announced length was that of compressed bytes.
  if (announced !== undefined && size < announced) {
    const what = `${url || "The body"} ended after ${size} of ${announced} bytes.`;
    throw new WarmstartError("truncated", `${what} It is not stored; request it again.`, { url });
  }
  return ofBlob(await gathered, reading);
}
