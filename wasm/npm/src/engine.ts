import * as engine from "../engine/warmstart_wasm.js";
import hex from "../engine/wasm.js";

import { WarmstartError } from "./errors.js";

let memory: WebAssembly.Memory | undefined;
let envelope: InstanceType<typeof engine.Envelope>;
let window = new Uint8Array(0);

/** Consumes the bytes of large values in order: the common interface of `HeadWriter` and `Check`. */
export interface Sink {
  window(): number;
  update(length: number): void;
}

/**
 * Loads the engine, unless it is loaded. The functions of its module are usable from then on. Compiles it in another
 * thread: the browser needs this one to open a database.
 */
export async function load(): Promise<void> {
  // If it cannot be compiled, loadNow throws.
  if (memory === undefined) loadNow(await globalThis.WebAssembly?.compile(decoded(hex)).catch(() => undefined));
}

/** Loads the engine at once, unless it is loaded. Takes a few milliseconds. */
export function loadNow(module?: WebAssembly.Module): void {
  if (memory !== undefined) return;
  try {
    ({ memory } = engine.initSync({ module: module ?? decoded(hex) }));
  } catch (cause) {
    const message = "WebAssembly is not usable here; a content security policy must allow 'wasm-unsafe-eval'.";
    throw new WarmstartError("unsupported", message, { cause });
  }
  envelope = new engine.Envelope();
}

/** The longest envelope that is encoded and verified as a whole, in bytes; the engine has the same constant. */
const WINDOW = 64 * 1024;

/** Returns a view of the engine's window; a new one when the memory has grown, because it then has another buffer. */
function currentWindow(): Uint8Array<ArrayBuffer> {
  if (window.length === 0) window = new Uint8Array(memory!.buffer, envelope.window(), WINDOW);
  return window;
}

/** Returns a new array with the envelope of a small value. Throws the name of a reason if it is too long. */
export function encodeEnvelope(
  key: Uint8Array,
  metadata: Uint8Array,
  payload: Uint8Array,
  buildMs: number,
): Uint8Array<ArrayBuffer> {
  const into = currentWindow();
  into.set(key);
  into.set(metadata, key.length);
  into.set(payload, key.length + metadata.length);
  const length = envelope.encode(key.length, metadata.length, payload.length, Date.now(), buildMs);
  if (length < 0) throw reasonOf(-length) ?? "malformed";
  // The memory may have grown meanwhile.
  return currentWindow().slice(0, length);
}

/** Verifies a whole envelope, by one call into WebAssembly. Returns the reason why it is not intact, if any. */
export function verifyEnvelope(bytes: Uint8Array): string | undefined {
  if (bytes.length > WINDOW) return "malformed";
  currentWindow().set(bytes);
  return reasonOf(envelope.verify(bytes.length));
}

/** Feeds bytes to the engine through its window. Copies them once. */
export function pour(sink: Sink, bytes: Uint8Array): void {
  if (memory === undefined) return;
  const address = sink.window();
  const length = engine.window_len();
  for (let at = 0; at < bytes.length; at += length) {
    const piece = bytes.subarray(at, at + length);
    new Uint8Array(memory.buffer, address, piece.length).set(piece);
    sink.update(piece.length);
  }
}

/** Returns the name of the reason with this number; `undefined` for 0. */
export function reasonOf(number: number): string | undefined {
  return number === 0 ? undefined : engine.reason(number, false);
}

/** Returns a sentence for people about a reason. */
export function explanation(reason: string): string {
  for (let number = 1; ; number += 1) {
    const name = engine.reason(number, false);
    if (name === undefined) return reason;
    if (name === reason) return engine.reason(number, true) ?? reason;
  }
}

/** Splits the engine's texts. Each follows its length in bytes; an absent one has the length 2^32 - 1. */
export function texts(bytes: Uint8Array): (string | undefined)[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const all: (string | undefined)[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true);
    at += 4;
    const isThere = length !== 0xffff_ffff;
    all.push(isThere ? decoder.decode(bytes.subarray(at, at + length)) : undefined);
    if (isThere) at += length;
  }
  return all;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the engine's encoded bytes. Throws the name of a reason if the engine returned its number. */
export function encoded(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.length === 1) throw reasonOf(bytes[0] as number) ?? "malformed";
  return bytes as Uint8Array<ArrayBuffer>;
}

/** The bytes of an inlined module, which is in hexadecimal digits. */
function decoded(inlined: string): Uint8Array<ArrayBuffer> {
  const { fromHex } = Uint8Array as { fromHex?: (digits: string) => Uint8Array<ArrayBuffer> };
  if (fromHex) return fromHex.call(Uint8Array, inlined);
  // Browsers from before 2025 have no `fromHex`.
  return Uint8Array.from(inlined.match(/../g) ?? [], (digits) => parseInt(digits, 16));
}
