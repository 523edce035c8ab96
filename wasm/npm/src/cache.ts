/// <reference lib="esnext.disposable" preserve="true" />
import type { Core } from "./core.js";
import type { Events } from "./events.js";
import { getOrCreate } from "./create.js";
import { entries, explain, persist, resize, stats, verify } from "./inspect.js";
import type { KeyInput } from "./key.js";
import type {
  As,
  Build,
  CreateOptions,
  EntryInfo,
  Explanation,
  Formats,
  PutOptions,
  Stats,
  Value,
} from "./types.js";

/**
 * A verified, bounded cache over IndexedDB. Create one with {@link open}.
 *
 * A miss is `undefined`, never `null`. Promises reject only for invalid arguments (`invalid_argument`), HTTP
 * or builder errors, and aborts. Damage, a full disk and a missing IndexedDB are counted misses, and {@link
 * stats} has their reasons.
 *
 * Calls of one tick share one transaction, so `Promise.all(keys.map((key) => cache.get(key)))` is as fast as
 * {@link getMany}.
 */
export class Cache {
  /** @internal */
  readonly core: Core;

  /** @internal */
  constructor(core: Core) {
    this.core = core;
  }

  /** The name that the cache was opened with. */
  get name(): string {
    return this.core.name;
  }

  /** Where values are stored. Changes to `memory` if the browser removes access to the database. */
  get backend(): "indexeddb" | "memory" {
    return this.core.store.backend;
  }

  /** The events of this cache. */
  get events(): Events {
    return this.core.events;
  }

  /**
   * Returns the verified value of `key`, or `undefined`.
   *
   * @param as the format of the value; `"bytes"` by default. With `"response"`, the body is read only when
   *   the caller reads it, and verified while it streams: a damaged body fails with `damaged` before its last
   *   chunk.
   * @typeParam Json the type of the stored value, with `"json"`
   * @throws WarmstartError `invalid_argument` if the key or format is invalid, or the value is not JSON
   *
   * @example
   * const bytes = await cache.get("model.bin");
   * const config = await cache.get<{ layers: number }>("config", "json");
   */
  get(key: KeyInput): Promise<Uint8Array<ArrayBuffer> | undefined>;
  get<Json = unknown>(key: KeyInput, as: "json"): Promise<Json | undefined>;
  get<Format extends As>(key: KeyInput, as: Format): Promise<Formats[Format] | undefined>;
  get(key: KeyInput, as: As = "bytes"): Promise<Formats[As] | undefined> {
    return this.core.get(key, as);
  }

  /** Reads the values of `keys` in one transaction; each result is that of {@link get}, in the same order. */
  getMany(keys: Iterable<KeyInput>): Promise<(Uint8Array<ArrayBuffer> | undefined)[]>;
  getMany<Json = unknown>(keys: Iterable<KeyInput>, as: "json"): Promise<(Json | undefined)[]>;
  getMany<Format extends As>(keys: Iterable<KeyInput>, as: Format): Promise<(Formats[Format] | undefined)[]>;
  getMany(keys: Iterable<KeyInput>, as: As = "bytes"): Promise<(Formats[As] | undefined)[]> {
    return this.core.getMany([...keys], as);
  }

  /**
   * Stores `value` under `key`, and replaces an older value. Changing a buffer of up to 32 MiB after the call does
   * not change the stored value; a larger one must not change until the promise resolves. Of several puts of one
   * key, the last call wins.
   *
   * @returns `true` once the value is committed; `false` if it was refused and is at most in memory. {@link
   *   stats} counts the reason.
   * @throws WarmstartError `http_error` if `value` is a `Response` that is not ok or is partial (206);
   *   `truncated` if it is a `Response` shorter than its `content-length`; `invalid_argument` if it cannot be
   *   stored
   *
   * @example
   * const isStored = await cache.put("config", JSON.stringify(config), { label: "configuration of the model" });
   */
  put(key: KeyInput, value: Value, options?: PutOptions): Promise<boolean> {
    return this.core.put(key, value, options);
  }

  /** Stores `entries`, small ones in one transaction; each result is that of {@link put}. */
  putMany(entries: Iterable<readonly [KeyInput, Value]>, options?: PutOptions): Promise<boolean[]> {
    return Promise.all(Array.from(entries, ([key, value]) => this.core.put(key, value, options)));
  }

  /**
   * Returns the value of `key`, or builds and stores it. Of all calls for one key, in all tabs, one builds
   * and the others wait for it.
   *
   * An error of `build` rejects all calls that wait in this tab, unchanged, and nothing is stored. A value
   * that cannot be stored is returned all the same.
   *
   * @throws WarmstartError `http_error` or `truncated` if the build returns such a `Response`, as in {@link
   *   put}; `invalid_argument` if it returns a value that cannot be stored
   *
   * @example
   * const model = await cache.getOrCreate("https://example.org/model.bin", ({ signal }) =>
   *   fetch("https://example.org/model.bin", { signal }),
   * );
   */
  getOrCreate(
    key: KeyInput,
    build: Build,
    options?: CreateOptions & { as?: "bytes" },
  ): Promise<Uint8Array<ArrayBuffer>>;
  getOrCreate<Json = unknown>(
    key: KeyInput,
    build: Build,
    options: CreateOptions & { as: "json" },
  ): Promise<Json>;
  getOrCreate<Format extends As>(
    key: KeyInput,
    build: Build,
    options: CreateOptions & { as: Format },
  ): Promise<Formats[Format]>;
  getOrCreate(key: KeyInput, build: Build, options: CreateOptions = {}): Promise<Formats[As]> {
    return getOrCreate(this.core, key, build, options);
  }

  /** Tells whether a value is stored under `key`, without reading it. */
  has(key: KeyInput): Promise<boolean> {
    return this.core.has(key);
  }

  /** Removes the value of `key`. Resolves with whether there was one. */
  delete(key: KeyInput): Promise<boolean> {
    return this.core.delete(key);
  }

  /** Removes all entries. */
  clear(): Promise<void> {
    return this.core.clear();
  }

  /**
   * Lists all entries in the order of eviction. Reads values of up to 48 KiB, and leaves out those that are damaged. What
   * it says of a larger one is stored beside the value, which may be damaged, or lost by the browser: {@link verify} finds
   * the damaged ones, and a look-up removes both.
   */
  entries(): Promise<EntryInfo[]> {
    return entries(this.core);
  }

  /** Returns the counters since the cache was opened, and its current size. */
  stats(): Promise<Stats> {
    return stats(this.core);
  }

  /** Explains whether `key` would hit or miss now. For a {@link Key}, also finds the nearest stored entry. */
  explain(key: KeyInput): Promise<Explanation> {
    return explain(this.core, key);
  }

  /** Reads and verifies all entries. Removes the damaged ones, and returns their keys and reasons. */
  verify(): Promise<{ key: Uint8Array; reason: string }[]> {
    return verify(this.core);
  }

  /**
   * Asks the browser not to clear this origin's storage by itself, and resolves with whether it agreed. The
   * browser may ask the user. In a worker, only returns whether a page was granted this.
   */
  persist(): Promise<boolean> {
    return persist();
  }

  /**
   * Sets new bounds, and evicts at once what exceeds them. An omitted bound is removed.
   *
   * @throws WarmstartError `invalid_argument` if a bound is not a number from 0
   */
  resize(bounds: { maxBytes?: number; maxEntries?: number }): Promise<void> {
    return resize(this.core, bounds);
  }

  /** Waits for pending puts, and writes recorded uses. The cache also writes uses when the page is hidden. */
  flush(): Promise<void> {
    return this.core.flush();
  }

  /** Flushes and closes. Later reads miss and later writes are refused, with the reason `closed`. */
  close(): Promise<void> {
    return this.core.close();
  }

  /** Calls {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.core.close();
  }
}
