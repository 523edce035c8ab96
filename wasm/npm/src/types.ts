import type { WarmstartError } from "./errors.js";
import type { Cache } from "./cache.js";

/** What {@link open} is told. */
export interface OpenOptions {
  /** The name of the cache. Caches of the same name on the same origin are one. */
  name: string;
  /** The most bytes that it keeps; what was used least recently goes first. Unbounded if left out. */
  maxBytes?: number;
  /** The most entries that it keeps. Unbounded if left out. */
  maxEntries?: number;
  /** Keeps everything in memory, for tests and for pages that must leave no trace. */
  memory?: boolean;
  /**
   * Is called when the cache goes on but not as it should; otherwise the console is told, once. What it
   * throws is reported as that of an event's listener is.
   */
  onWarning?: (warning: WarmstartError) => void;
}

/** A value that can be stored. Objects go in as `JSON.stringify(object)` and come back with `"json"`. */
export type Value = string | ArrayBuffer | ArrayBufferView | Blob | Response | ReadableStream<Uint8Array>;

/** How a value is handed out. */
export type As = "bytes" | "blob" | "text" | "json" | "response";

/** The type that each {@link As} hands out. `Json` is what the caller says that it stored. */
export interface Formats<Json = unknown> {
  /** A fresh array of exactly the value. */
  bytes: Uint8Array<ArrayBuffer>;
  /** A `Blob` with the type that was stored. */
  blob: Blob;
  /** The value as UTF-8 text. */
  text: string;
  /** The value parsed as JSON. */
  json: Json;
  /**
   * A `Response` with the headers that were stored. From {@link Cache.get}, nothing is read before its body
   * is asked for; it is verified while it streams, and the last chunk comes only after the checksum matched.
   */
  response: Response;
}

/** What is kept beside a value. */
export interface PutOptions {
  /** What people see in a list of entries. */
  label?: string;
  /** The media type, for example `application/wasm`; else that of the `Blob` or `Response`. */
  type?: string;
  /** Headers to hand out with `"response"`; they win over those of a stored `Response`. */
  headers?: HeadersInit;
  /** Gives up while the value is read; what is handed to the database is stored all the same. */
  signal?: AbortSignal;
}

/**
 * Tells how far something is. What this library reads it counts in bytes; a builder may count in what it
 * likes. `total` is in the same unit, and is left out where it is not known. What a listener throws is
 * reported as that of an event's listener is, and ends nothing.
 */
export type Progress = (loaded: number, total?: number) => void;

/** What a builder is given. */
export interface BuildContext {
  /** Is aborted when nobody waits for the value any more. */
  signal: AbortSignal;
  /** Tells everybody who waits how far the build is. It also shows that the build is alive: see `waitMs`. */
  onProgress: Progress;
  /** The same cache, for builds within this build: calls through it never wait for each other in a circle. */
  cache: Cache;
}

/** Makes the value that was missed. */
export type Build = (context: BuildContext) => Value | Promise<Value>;

/** How {@link Cache.getOrCreate} works. */
export interface CreateOptions extends PutOptions {
  /** How the value is handed out: `"bytes"` if left out. */
  as?: As;
  /** Is told how far the build is, whoever builds in this tab. */
  onProgress?: Progress;
  /** Stops waiting. The build itself is aborted only when nobody else waits for it. */
  signal?: AbortSignal;
  /**
   * The longest wait, in milliseconds, for a build of the same key elsewhere that shows no progress, before
   * this call builds for itself. 30 000 if left out. Progress is seen within a tab, not across tabs.
   */
  waitMs?: number;
}

/** An entry as {@link Cache.entries} tells of it. */
export interface EntryInfo {
  /** The bytes of the key. */
  key: Uint8Array;
  /** The key as text, where it is text; a {@link Key} has none. */
  text: string | undefined;
  /** What the entry was labelled with. */
  label: string | undefined;
  /** The media type that was stored. */
  type: string | undefined;
  /** The headers that were stored. */
  headers: Headers;
  /** The length of the value in bytes. */
  size: number;
  /** What it counts against `maxBytes`, in bytes: value, key and what is kept beside it. */
  storedSize: number;
  /** When it was stored. */
  created: Date;
  /** When it was used last. */
  lastUsed: Date;
  /** How long it took to build, in milliseconds; 0 where it was put. */
  buildMs: number;
  /** What its {@link Key} was made of. */
  recipe: Recipe | undefined;
}

/** What a {@link Key} was made of. */
export interface Recipe {
  /** What kind of thing the key names. */
  domain: string;
  /** The version of the fields' meaning. */
  schema: number;
  /** The fields; bytes and long texts have no `value`, only a digest. */
  fields: { label: string; value?: string; digest: string }[];
}

/** What a cache did since it was opened, and what it holds. */
export interface Stats {
  /** Where values are kept. */
  backend: "indexeddb" | "memory";
  /** Why they are kept in memory only, if that was not asked for. */
  reason: string | undefined;
  /** How often a value was found. */
  hits: number;
  /** How often each reason made a miss. */
  misses: Record<string, number>;
  /** How often each reason kept a value from being stored. */
  refusals: Record<string, number>;
  /** Builds that ran. */
  builds: number;
  /** Calls that got what another call built. */
  shared: number;
  /** The bytes of the values that were found. */
  bytesRead: number;
  /** The bytes of the values that were stored. */
  bytesWritten: number;
  /** Entries that went, to make room. */
  evictions: number;
  /** Time spent in builds, in milliseconds. */
  buildMs: number;
  /** Time that hits spared, in milliseconds: what their builds took. */
  savedMs: number;
  /** Entries that are held. */
  entries: number;
  /** Bytes that are held, counted as `maxBytes` counts them. */
  bytes: number;
}

/** Why a key would hit or miss. */
export interface Explanation {
  /** Whether it would hit. */
  hit: boolean;
  /** Why it would miss, as a stable name. */
  reason: string | undefined;
  /** The same as a sentence for people. */
  text: string;
  /** The stored entry that is most like a {@link Key}, and the fields in which it differs. */
  nearest:
    | { key: Uint8Array; label: string | undefined; changes: { label: string; old?: string; new?: string }[] }
    | undefined;
}
