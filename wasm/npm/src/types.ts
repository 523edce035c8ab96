import type { WarmstartError } from "./errors.js";

/** Options of {@link open}. */
export interface OpenOptions {
  /** The name of the cache. All pages of an origin that use the same name share one cache. */
  name: string;
  /** The cap in bytes; the cache evicts the least recently used entries first. Unbounded by default. */
  maxBytes?: number;
  /** The cap on the number of entries. Unbounded by default. */
  maxEntries?: number;
  /** Keeps everything in memory, for tests and for pages that must not store anything. */
  memory?: boolean;
  /**
   * Receives `memory_only` and `no_space` warnings. Without it and without a listener of `warning`, the
   * cache logs them to the console, once each. The browser reports exceptions of this function as uncaught.
   */
  onWarning?: (warning: WarmstartError) => void;
}

/** A value that can be stored. Store an object as `JSON.stringify(object)`, and read it with `"json"`. */
export type Value = string | ArrayBuffer | ArrayBufferView | Blob | Response | ReadableStream<Uint8Array>;

/** The format in which a value is returned. */
export type As = "bytes" | "blob" | "text" | "json" | "response";

/** The type of each format of {@link As}. `Json` is the type that the caller stored. */
export interface Formats<Json = unknown> {
  /** A new array that holds exactly the value. */
  bytes: Uint8Array<ArrayBuffer>;
  /** A `Blob` with the stored media type. */
  blob: Blob;
  /** The value as UTF-8 text. */
  text: string;
  /** The value parsed as JSON. */
  json: Json;
  /**
   * A `Response` with the stored headers. From `cache.get`, the body is read only when the caller reads
   * it; it is verified while it streams, and the last chunk arrives only after the checksum matched.
   */
  response: Response;
}

/** Options of `cache.put`: what to store with the value. */
export interface PutOptions {
  /** A short text that describes the entry in listings. */
  label?: string;
  /** The media type, for example `application/wasm`. Defaults to that of the `Blob` or `Response`. */
  type?: string;
  /** Headers to return with `"response"`; they override those of a stored `Response`. */
  headers?: HeadersInit;
  /**
   * Hands an `ArrayBuffer`, or the one behind a view, over to the cache, as `postMessage` does: the caller's is empty
   * from the call on. Only `put` and `putMany` do so.
   */
  transfer?: boolean;
  /** Receives the progress of reading a `Response` or a `ReadableStream`. */
  onProgress?: Progress;
  /** Aborts reading the value. A value that has reached the database is stored all the same. */
  signal?: AbortSignal;
}

/**
 * Reports progress. This library counts in bytes; a builder may use any unit. `total` is in the same unit,
 * and absent while it is unknown. The browser reports exceptions of this function as uncaught; they do not
 * stop the operation.
 */
export type Progress = (loaded: number, total?: number) => void;

/** The argument of a {@link Build}. */
export interface BuildContext {
  /** Aborts when no call waits for the value any more. */
  signal: AbortSignal;
  /** Reports progress to all waiting calls. It also restarts their timeout: see `waitMs`. */
  onProgress: Progress;
}

/** Builds a missing value. A returned buffer of more than 32 MiB must not change until `getOrCreate` resolves. */
export type Build = (context: BuildContext) => Value | Promise<Value>;

/** Options of `cache.getOrCreate`. */
export interface CreateOptions extends Omit<PutOptions, "transfer"> {
  /** The format of the returned value. `"bytes"` by default. */
  as?: As;
  /** Receives the progress of the build, also if another call in this tab runs it. */
  onProgress?: Progress;
  /** Stops waiting. The build itself aborts only if no other call waits for it. */
  signal?: AbortSignal;
  /**
   * The longest wait, in milliseconds, for a build of the same key by another call or tab that reports no
   * progress; then this call builds for itself. 30,000 by default. Progress is visible within a tab only.
   */
  waitMs?: number;
}

/** An entry in the listing of `cache.entries`. */
export interface EntryInfo {
  /** The bytes of the key. */
  key: Uint8Array;
  /** The key as text, if its bytes are UTF-8; `undefined` for a {@link Key}. */
  text: string | undefined;
  /** The label given when the entry was stored. */
  label: string | undefined;
  /** The stored media type. */
  type: string | undefined;
  /** The stored headers. */
  headers: Headers;
  /** The length of the value in bytes. */
  size: number;
  /** The size that counts against `maxBytes`, in bytes: value, key and metadata. */
  storedSize: number;
  /** The time at which the entry was stored. */
  created: Date;
  /** The time of the last use. */
  lastUsed: Date;
  /** The duration of the build in milliseconds; 0 if the value was stored by `put`. */
  buildMs: number;
  /** The fields of its {@link Key}, if it has one. */
  recipe: Recipe | undefined;
}

/** The domain, schema and fields of a {@link Key}. */
export interface Recipe {
  /** The kind of value that the key names. */
  domain: string;
  /** The version of the fields' meaning. */
  schema: number;
  /** The fields. Bytes and long texts have no `value`, only a digest. */
  fields: { label: string; value?: string; digest: string }[];
}

/** Counters since the cache was opened. */
export interface Counters {
  /** Look-ups that found a value. One with `"response"` counts when the body was read. */
  hits: number;
  /** Look-ups that found none, by miss reason. */
  misses: Record<string, number>;
  /** Values that could not be stored, by reason. */
  refusals: Record<string, number>;
  /** Builds that ran. */
  builds: number;
  /** Calls that received a value that another call built. */
  shared: number;
  /** The total size of the values that were found, in bytes. */
  bytesRead: number;
  /** The total size of the values that were stored, in bytes. */
  bytesWritten: number;
  /** Entries that were evicted. */
  evictions: number;
  /** The total duration of builds, in milliseconds. */
  buildMs: number;
  /** The build time that hits saved, in milliseconds. */
  savedMs: number;
}

/** Counters since the cache was opened, and its current size. */
export interface Stats extends Counters {
  /** Where values are stored. */
  backend: "indexeddb" | "memory";
  /** The reason of the last failure of the database, for example `no_space`; `undefined` if there was none. */
  reason: string | undefined;
  /** The number of entries. */
  entries: number;
  /** The size of the entries in bytes, as `maxBytes` counts it. */
  bytes: number;
}

/** Whether and why a key would hit or miss; returned by `cache.explain`. */
export interface Explanation {
  /** Whether the key would hit. */
  hit: boolean;
  /** The stable name of the miss reason; `undefined` for a hit. */
  reason: string | undefined;
  /** The reason as a sentence for people. */
  text: string;
  /** The stored entry nearest to a {@link Key}, and the fields in which it differs. */
  nearest:
    | { key: Uint8Array; label: string | undefined; changes: { label: string; old?: string; new?: string }[] }
    | undefined;
}
