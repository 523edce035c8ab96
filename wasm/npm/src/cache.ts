/// <reference lib="esnext.disposable" preserve="true" />
import type { Core } from "./core.js";
import type { Events } from "./events.js";
import type { Flight } from "./flight.js";
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
 * A verified, bounded cache over IndexedDB. Make one with {@link open}.
 *
 * A miss is `undefined`, never `null`. Only the caller's own mistakes, a server's and a builder's errors, and
 * aborts reject. Damage, a full disk and an absent IndexedDB do not: they are counted misses, and {@link
 * stats} says why.
 *
 * Calls of one tick become one transaction, so `Promise.all(keys.map((key) => cache.get(key)))` is as fast as
 * {@link getMany}.
 */
export class Cache {
  /** @internal */
  readonly core: Core;
  readonly #within: Flight | undefined;

  /** @internal */
  constructor(core: Core, within?: Flight) {
    this.core = core;
    this.#within = within;
  }

  /** The name that the cache was opened with. */
  get name(): string {
    return this.core.name;
  }

  /** Where values are kept. It turns into `memory` if the browser takes the database away. */
  get backend(): "indexeddb" | "memory" {
    return this.core.backend;
  }

  /** What happens, for live lists. */
  get events(): Events {
    return this.core.events;
  }

  /**
   * The value under `key`, checked, or `undefined`.
   *
   * @param as how it is handed out; `"bytes"` if left out. With `"response"`, the body is read when it is
   *   asked for, and verified while it streams: damage makes the stream fail with `damaged` before its last
   *   chunk.
   * @typeParam Json what the caller knows to have stored, with `"json"`
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

  /** The values under `keys`, in their order, as {@link get} would give each; read in one transaction. */
  getMany(keys: Iterable<KeyInput>): Promise<(Uint8Array<ArrayBuffer> | undefined)[]>;
  getMany<Json = unknown>(keys: Iterable<KeyInput>, as: "json"): Promise<(Json | undefined)[]>;
  getMany<Format extends As>(keys: Iterable<KeyInput>, as: Format): Promise<(Formats[Format] | undefined)[]>;
  getMany(keys: Iterable<KeyInput>, as: As = "bytes"): Promise<(Formats[As] | undefined)[]> {
    return this.core.getMany([...keys], as);
  }

  /**
   * Stores `value` under `key`, in place of what was there. What the caller does to its buffer afterwards
   * does not matter. Of several puts of one key, the last one called wins.
   *
   * @returns `true` once it is committed; `false` if it was refused, and is kept in memory at most. {@link
   *   stats} counts why.
   * @throws WarmstartError `http_error` if it is a `Response` that is not ok or is only a part (206);
   *   `truncated` if it is a `Response` with less than its `content-length`; `invalid_argument` if it is
   *   nothing that can be stored
   */
  put(key: KeyInput, value: Value, options?: PutOptions): Promise<boolean> {
    return this.core.put(key, value, options);
  }

  /** Stores all `entries`, small ones in one transaction, and says of each what {@link put} would. */
  putMany(entries: Iterable<readonly [KeyInput, Value]>, options?: PutOptions): Promise<boolean[]> {
    return Promise.all(Array.from(entries, ([key, value]) => this.core.put(key, value, options)));
  }

  /**
   * The value under `key`; where there is none, `build` makes it, and it is stored. Of all calls for one key,
   * in all tabs, one builds and the others wait for it.
   *
   * What `build` throws is passed on as it is, to all who wait in this tab, and nothing is stored. A value
   * that cannot be stored is returned all the same.
   *
   * @throws WarmstartError `http_error` or `truncated` if the build gives such a `Response`;
   *   `invalid_argument` if it gives nothing that can be stored
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
    return getOrCreate(
      this.core,
      key,
      build,
      options,
      this.#within,
      (flight) => new Cache(this.core, flight),
    );
  }

  /** Whether something is stored under `key`. No value is read, so it is quick however large the value is. */
  has(key: KeyInput): Promise<boolean> {
    return this.core.has(key);
  }

  /** Removes what is stored under `key`, and says whether there was anything. */
  delete(key: KeyInput): Promise<boolean> {
    return this.core.delete(key);
  }

  /** Removes everything. */
  clear(): Promise<void> {
    return this.core.clear();
  }

  /** Every entry, the one that is to go next first. No value is read. */
  entries(): Promise<EntryInfo[]> {
    return entries(this.core);
  }

  /** What the cache did since it was opened, and what it holds. */
  stats(): Promise<Stats> {
    return stats(this.core);
  }

  /** Why `key` would hit or miss now. Of a {@link Key}, it also says which stored entry is most like it. */
  explain(key: KeyInput): Promise<Explanation> {
    return explain(this.core, key);
  }

  /** Reads everything and checks it. What is damaged is removed and named. */
  verify(): Promise<{ key: Uint8Array | undefined; reason: string }[]> {
    return verify(this.core);
  }

  /**
   * Asks the browser not to clear this origin's storage by itself, and says whether it agreed. It may ask the
   * user. In a worker it only says whether a page was granted it.
   */
  persist(): Promise<boolean> {
    return persist();
  }

  /** Sets new bounds, and evicts at once what is over them. A bound that is left out is none. */
  resize(bounds: { maxBytes?: number; maxEntries?: number }): Promise<void> {
    return resize(this.core, bounds);
  }

  /**
   * Writes what is pending of puts, and of what is known about use. It also happens when the page is hidden.
   */
  flush(): Promise<void> {
    return this.core.flush();
  }

  /**
   * Flushes and closes. Afterwards every read misses and every write is refused, with the reason `closed`.
   */
  close(): Promise<void> {
    return this.core.close();
  }

  /** The same as {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.core.close();
  }
}
