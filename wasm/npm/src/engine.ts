import init, * as glue from "../engine/warmstart_wasm.js";
import base64 from "../engine/wasm.js";

import { WarmstartError } from "./errors.js";

/** The WebAssembly half: keys, checksums and eviction. */
export type Engine = typeof glue;

let loading: Promise<Engine> | undefined;
let memory: WebAssembly.Memory | undefined;

/** Consumes the bytes of large values in order: the common interface of `HeadWriter` and `Check`. */
export interface Sink {
  window(): number;
  update(length: number): void;
}

/** Loads the engine, once for the whole page or worker. */
export function loadEngine(): Promise<Engine> {
  loading ??= instantiate();
  return loading;
}

/** Returns the engine synchronously. Instantiates it if no cache was opened yet. */
export function engineNow(): Engine {
  if (!memory) {
    try {
      ({ memory } = glue.initSync({ module: decoded(base64) }));
    } catch (cause) {
      throw unsupported(cause);
    }
  }
  return glue;
}

/** Feeds bytes to the engine through its window. Copies them once. */
export function pour(sink: Sink, bytes: Uint8Array): void {
  if (memory === undefined) return;
  const place = sink.window();
  const length = glue.window_len();
  for (let at = 0; at < bytes.length; at += length) {
    const piece = bytes.subarray(at, at + length);
    new Uint8Array(memory.buffer, place, piece.length).set(piece);
    sink.update(piece.length);
  }
}

async function instantiate(): Promise<Engine> {
  if (!memory) {
    try {
      ({ memory } = await init({ module_or_path: decoded(base64) }));
    } catch (cause) {
      loading = undefined;
      throw unsupported(cause);
    }
  }
  return glue;
}

/** The bytes of an inlined module. */
export function decoded(inlined: string): Uint8Array<ArrayBuffer> {
  const text = atob(inlined);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Creates the error for a page that cannot load the engine. */
export function unsupported(cause: unknown): WarmstartError {
  const message =
    "WebAssembly is not usable here; a content security policy must allow 'wasm-unsafe-eval'.";
  return new WarmstartError("unsupported", message, { cause });
}
