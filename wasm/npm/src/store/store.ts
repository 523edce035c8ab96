import { type Engine, loadEngine } from "../engine.js";
import { Database } from "./database.js";
import { Directory } from "./directory.js";
import { Fault, fault } from "./idb.js";
import { type Explained, explain, type Listed, list, statistics, verify } from "./inspect.js";
import { Journal } from "./journal.js";
import { type LookUp, lookUp } from "./look-up.js";
import { Memory } from "./memory.js";
import { nameOf, textOf } from "./name.js";
import { entryAt } from "./pack.js";
import { findPieces } from "./pieces.js";
import { type Entry, entryOf, type Found, isDamage, type Item, Records, type Stored } from "./record.js";
import { remove } from "./remove.js";
import { Spill } from "./spill.js";
import { Counters, type Statistics } from "./statistics.js";
import { store } from "./write.js";

export type { Explained, Listed } from "./inspect.js";
export type { About, Found, Item, Part, Piece } from "./record.js";
export type { Statistics } from "./statistics.js";

/** What is kept at most, in bytes, of what a database had no space for. */
const BESIDE = 64 << 20;

/** The limits of a store. An omitted limit is no limit. */
export interface Limits {
  /** The most bytes of all entries, with their heads. */
  maxBytes?: number | undefined;
  /** The most entries. */
  maxEntries?: number | undefined;
}

/**
 * A cache's entries, in IndexedDB or in memory. No fault of the browser rejects: a read misses and a write is
 * refused, with a reason of the core.
 */
export class Store {
  readonly counters = new Counters();
  /** Why there is no database, or why it last did not take something. */
  reason: string | undefined;
  /** @internal */
  readonly engine: Engine;
  /** @internal */
  database: Database | undefined;
  /** @internal */
  readonly directory: Directory;
  /** @internal */
  journal: Journal | undefined;
  /** @internal */
  readonly memory: Memory;
  #limits: Limits;
  #records: Records;
  #isClosed = false;
  #spill = new Spill(this);
  /** The names of entries of a newer version that were seen. They are not replaced. */
  #newer = new Set<string>();

  private constructor(engine: Engine, database: Database | undefined, directory: Directory, limits: Limits) {
    const { maxBytes, maxEntries } = limits;
    this.engine = engine;
    this.directory = directory;
    this.database = database;
    this.#limits = limits;
    this.#records = new Records(engine);
    if (database !== undefined) {
      this.journal = new Journal(engine, database, directory, maxBytes, maxEntries);
      this.journal.onEvicted = (entries) => {
        this.counters.evictions += entries;
      };
      this.memory = new Memory(engine, BESIDE);
    } else {
      this.memory = new Memory(engine, maxBytes, maxEntries);
    }
  }

  /**
   * Opens the store of this name; in memory if `memory` is set or the browser has no usable database.
   */
  static async open(name: string, options: Limits & { memory?: boolean | undefined } = {}): Promise<Store> {
    const directory = new Directory();
    const opening = async (): Promise<Database> => {
      const database = await Database.open(`warmstart:${name}`);
      // Opens while the engine loads. If this fails, the first look-up retries.
      await directory.refresh(database).catch(() => {});
      // After the first look-up, which must not wait for it.
      setTimeout(() => void database.probe(), 0);
      return database;
    };
    const opened = options.memory === true ? undefined : opening().catch(fault);
    const [engine, database] = await Promise.all([loadEngine(), opened]);
    if (!(database instanceof Error)) return new Store(engine, database, directory, options);
    const store = new Store(engine, undefined, directory, options);
    store.reason = database.reason;
    return store;
  }

  get backend(): "indexeddb" | "memory" {
    return this.database === undefined ? "memory" : "indexeddb";
  }

  /** Whether the parts of large values are Blobs; otherwise they are `ArrayBuffer`s. */
  get storesBlobs(): boolean {
    return this.database?.storesBlobs ?? true;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Looks values up in one transaction. A text is the reason of a miss. Hits and misses are counted, and a
   * hit is a use. `tell` is told of each as soon as it is known, while the browser reads the next one.
   */
  async read(
    keys: readonly Uint8Array[],
    tell?: (found: Found | string, at: number) => void,
  ): Promise<(Found | string)[]> {
    const names = keys.map((key) => nameOf(this.engine, key));
    const now = Date.now();
    const looked = await this.#look(keys, names, (found, at) => {
      this.#count(found, names[at]!, now);
      tell?.(found, at);
    });
    this.journal?.flushSoon();
    return looked;
  }

  /** Looks values up without counting hits, misses or uses. */
  peek(keys: readonly Uint8Array[]): Promise<(Found | string)[]> {
    return this.#look(keys, keys.map((key) => nameOf(this.engine, key)));
  }

  /** Whether something is under each key. No value is read. */
  async has(keys: readonly Uint8Array[]): Promise<boolean[]> {
    if (this.#isClosed) return keys.map(() => false);
    const names = keys.map((key) => nameOf(this.engine, key));
    const inMemory = names.map((name) => this.memory.get(name) !== undefined);
    if (this.database === undefined) return inMemory;
    try {
      const stored: unknown[] = [];
      const request = (entries: IDBObjectStore, number: number) => entries.getKey(number);
      await this.#lookUp<IDBValidKey>(names, request, (found, at) => (stored[at] = found));
      return inMemory.map((is, at) => is || stored[at] !== undefined);
    } catch (error) {
      this.trouble(error);
      return inMemory;
    }
  }

  /**
   * Stores values in one transaction, all of them or none. Gives for each why it was refused, or nothing:
   * then it survives the death of the browser. What there is no space for after evicting is kept in memory,
   * as far as there is room.
   */
  async write(items: readonly Item[]): Promise<(string | undefined)[]> {
    const refusals: (string | undefined)[] = [];
    const entries: Entry[] = [];
    for (const item of items) {
      const admitted = this.#admitted(item);
      // Nothing is waited for where nothing of a newer version was seen: calls are stored in their order.
      const isNewer = this.#newer.size > 0 && typeof admitted !== "string" && (await this.#isNewer(admitted));
      const entry = isNewer ? "newer_version" : admitted;
      if (typeof entry === "string") refusals.push(entry);
      else {
        refusals.push(undefined);
        entries.push(entry);
      }
    }
    const refusal = entries.length > 0 ? await this.#store(entries) : undefined;
    const outcome = refusals.map((earlier) => earlier ?? refusal);
    for (const reason of outcome) if (reason !== undefined) this.counters.refusal(reason);
    return outcome;
  }

  /** Removes entries. Gives for each whether it was there. */
  async remove(keys: readonly Uint8Array[]): Promise<boolean[]> {
    const held = await this.has(keys);
    if (this.#isClosed) return held;
    const names = keys.map((key) => nameOf(this.engine, key));
    for (const name of names) this.memory.remove(name);
    if (this.database === undefined) return held;
    try {
      await remove(this.database, this.directory, names);
      if (!this.directory.isWhole) {
        // The entries may exist without the directory knowing, until it is rebuilt.
        await this.journal?.sync();
        const went = await remove(this.database, this.directory, names);
        went.forEach((did, at) => (held[at] ||= did));
      }
      for (const name of names) this.journal?.ledger.removed(name, Date.now());
      this.journal?.flushSoon();
      return held;
    } catch (error) {
      this.trouble(error);
      return held.map(() => false);
    }
  }

  /** Counts a large value that failed its check as a miss, and removes it if it still has this head. */
  async damaged(key: Uint8Array, head: Uint8Array, reason: string): Promise<void> {
    this.counters.hits -= 1;
    this.counters.miss(reason);
    await this.heal(nameOf(this.engine, key), (record) => hasHead(record, head));
  }

  /** Removes every entry. */
  async clear(): Promise<void> {
    if (this.#isClosed) return;
    this.memory.clear();
    const { journal } = this;
    if (journal === undefined) return;
    // An entry that stays would be found later, so a single fault of the browser must not stop this.
    await journal
      .clear()
      .catch(() => journal.clear())
      .catch((error: unknown) => this.trouble(error));
  }

  /** Sets the limits, and evicts what exceeds them. */
  async setLimits(maxBytes: number | undefined, maxEntries: number | undefined): Promise<void> {
    this.#limits = { maxBytes, maxEntries };
    if (this.journal === undefined) this.counters.evictions += this.memory.setLimits(maxBytes, maxEntries);
    else await this.journal.setLimits(maxBytes, maxEntries).catch((error: unknown) => this.trouble(error));
  }

  /** Lists the metadata of all entries in the order of eviction. */
  list(): Promise<Listed[]> {
    return list(this);
  }

  /** Explains why a look-up misses; `recipe` is encoded metadata with the recipe of the key. */
  explain(key: Uint8Array, recipe?: Uint8Array): Promise<Explained> {
    return explain(this, key, recipe);
  }

  /**
   * Reads every entry and removes damaged ones. Verifies the heads of large values, but not their payloads.
   */
  verify(): Promise<{ key: Uint8Array | undefined; reason: string }[]> {
    return verify(this);
  }

  /** Returns the counters since the store was opened, and its size. */
  statistics(): Promise<Statistics> {
    return statistics(this);
  }

  /** Counts a build that took `ms` milliseconds. */
  countBuild(ms: number): void {
    this.counters.builds += 1;
    this.counters.buildMs += ms;
  }

  /** Counts a call that received another call's build. */
  countShared(): void {
    this.counters.shared += 1;
  }

  /** Writes pending records of the journal, and reads those of other tabs. */
  async flush(): Promise<void> {
    if (!this.#isClosed) await this.journal?.sync().catch((error: unknown) => this.trouble(error));
  }

  /** Writes pending records without waiting, for a page that is being hidden. */
  flushNow(): void {
    if (!this.#isClosed) this.journal?.writeNow();
  }

  /** Writes pending records and closes the database. Later reads miss, and later writes are refused. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.flush();
    this.#isClosed = true;
    this.#spill.stop();
    this.journal?.stop();
    this.database?.close();
    this.memory.clear();
  }

  /**
   * @internal Reads records by their names, in one transaction. Each is looked at as soon as it arrives,
   * while the browser reads the next one.
   */
  async records<T>(
    names: readonly Uint8Array<ArrayBuffer>[],
    look: (record: Stored | undefined | Fault, at: number) => T,
  ): Promise<T[]> {
    const inMemory = names.map((name) => this.memory.get(name));
    if (names.length === 0 || this.database === undefined) return inMemory.map(look);
    const done: T[] = [];
    const isDone = new Uint8Array(names.length);
    const tell = (record: Stored | undefined | Fault, at: number) => {
      isDone[at] = 1;
      const kept = inMemory[at];
      done[at] = look(kept === undefined ? record : this.#spill.newerOf(kept, record, names[at]!), at);
    };
    try {
      await this.#lookUp<unknown>(
        names,
        (entries, number) => entries.get(number),
        (found, at, place) => tell(entryAt(found, place) as Stored | undefined, at),
      );
    } catch (error) {
      const failed = this.trouble(error);
      isDone.forEach((is, at) => is === 0 && tell(failed, at));
    }
    return done;
  }

  async #lookUp<T>(
    names: readonly Uint8Array[],
    request: LookUp<T>["request"],
    tell: LookUp<T>["tell"],
  ): Promise<void> {
    const gone = (name: Uint8Array): void => this.gone(name);
    await lookUp(this.database!, this.directory, { names, request, tell, gone });
  }

  /** @internal Accounts for an entry that disappeared without a row of the journal. */
  gone(name: Uint8Array): void {
    this.journal?.ledger.removed(name, Date.now());
    this.journal?.flushSoon();
  }

  /** @internal Removes a damaged entry, unless another value was stored in its place meanwhile. */
  async heal(name: Uint8Array<ArrayBuffer>, isBad: (record: Stored) => boolean): Promise<void> {
    const inMemory = this.memory.get(name);
    if (inMemory !== undefined && isBad(inMemory)) this.memory.remove(name);
    if (this.database === undefined || this.#isClosed) return;
    try {
      const [went] = await remove(this.database, this.directory, [name], isBad);
      if (went) this.journal?.ledger.removed(name, Date.now());
      this.journal?.flushSoon();
    } catch (error) {
      this.trouble(error);
    }
  }

  /** `known` is told of each: of what is damaged once it is removed, of all else when it arrives. */
  async #look(
    keys: readonly Uint8Array[],
    names: readonly Uint8Array<ArrayBuffer>[],
    known: (found: Found | string, at: number) => void = () => {},
  ): Promise<(Found | string)[]> {
    if (this.#isClosed) {
      keys.forEach((_, at) => known("closed", at));
      return keys.map(() => "closed");
    }
    if (keys.length === 0) return [];
    // Payloads in pieces are read when all records have arrived.
    const split = new Map<number, Exclude<Stored, Uint8Array>>();
    const looked = await this.records(names, (record, at) => {
      const found = record instanceof Fault ? missOf(record) : this.#records.find(record, keys[at]!);
      if (found === "newer_version") this.#newer.add(textOf(names[at]!));
      const isSplit = typeof found !== "string" && (record as { p?: unknown }).p !== undefined;
      if (isSplit) split.set(at, record as Exclude<Stored, Uint8Array>);
      else if (typeof found !== "string" || !isDamage(found)) known(found, at);
      return found;
    });
    for (const [at, record] of split) {
      const found = await this.#withPieces(looked[at] as Found, record, names[at]!);
      looked[at] = found;
      if (typeof found !== "string" || !isDamage(found)) known(found, at);
    }
    for (const [at, found] of looked.entries()) {
      if (typeof found !== "string" || !isDamage(found)) continue;
      const key = keys[at]!;
      const head = split.get(at)?.h;
      await this.heal(names[at]!, (record) => {
        const still = this.#records.find(record, key);
        // A readable record without its pieces is damaged if it is still the same.
        return typeof still === "string" ? isDamage(still) : hasHead(record, head);
      });
      known(found, at);
    }
    return looked;
  }

  /** Adds a payload that is stored in pieces. */
  async #withPieces(
    found: Found,
    record: Exclude<Stored, Uint8Array>,
    name: Uint8Array<ArrayBuffer>,
  ): Promise<Found | string> {
    if (record.p === undefined || this.database === undefined) return found;
    try {
      const parts = await findPieces(this.database, name, record.p);
      return parts === undefined ? "truncated" : ({ ...found, parts } as Found);
    } catch (error) {
      return missOf(this.trouble(error));
    }
  }

  #count(found: Found | string, name: Uint8Array<ArrayBuffer>, now: number): void {
    if (typeof found === "string") return this.counters.miss(found);
    this.counters.hits += 1;
    this.counters.bytesRead += found.size;
    this.counters.savedMs += found.buildMs;
    if (this.memory.get(name) !== undefined) this.memory.used(name, now);
    else this.journal?.ledger.used(name, now);
  }

  #admitted(item: Item): Entry | string {
    if (this.#isClosed) return "closed";
    const entry = entryOf(this.engine, item);
    const { maxBytes, maxEntries } = this.#limits;
    const fits = (limit: number | undefined, n: number) => limit === undefined || (limit > 0 && n <= limit);
    return fits(maxBytes, entry.size) && fits(maxEntries, 1) ? entry : "oversize";
  }

  /** Whether this handle has seen that the replaced entry is of a newer version. */
  async #isNewer({ name }: Entry): Promise<boolean> {
    if (!this.#newer.has(textOf(name))) return false;
    const [record] = await this.records([name], (record) => record);
    const isThere = record !== undefined && !(record instanceof Fault);
    const is = isThere && this.#records.read(record) === "newer_version";
    if (!is) this.#newer.delete(textOf(name));
    return is;
  }

  async #store(entries: Entry[]): Promise<string | undefined> {
    const { journal } = this;
    const now = Date.now();
    const payload = entries.reduce((sum, entry) => sum + entry.payload, 0);
    if (journal === undefined) {
      for (const entry of entries) this.counters.evictions += this.memory.put(entry, now);
      this.counters.bytesWritten += payload;
      return undefined;
    }
    try {
      await store(this.database!, this.directory, journal, entries);
    } catch (error) {
      const { reason } = this.trouble(error);
      for (const entry of entries) this.memory.put(entry, now);
      if (reason === "no_space") this.#spill.tryLater();
      return this.reason;
    }
    for (const entry of entries) {
      // It is newer than what memory has of it.
      this.memory.remove(entry.name);
      journal.ledger.stored(entry.name, entry.size, now);
    }
    this.counters.bytesWritten += payload;
    await journal.keepLimits().catch((error: unknown) => this.trouble(error));
    journal.flushSoon();
    return undefined;
  }

  /**
   * @internal Notes what failed. A database that a newer version has taken over is given up, and memory takes
   * its place.
   */
  trouble(error: unknown): Fault {
    const failed = fault(error);
    this.reason = missOf(failed);
    if (failed.reason === "newer_version" && this.database !== undefined) {
      this.journal?.stop();
      this.journal = undefined;
      this.database.close();
      this.database = undefined;
      this.memory.setLimits(this.#limits.maxBytes, this.#limits.maxEntries);
    }
    return failed;
  }
}

/** Returns the miss reason of a failed look-up. */
function missOf({ reason }: Fault): string {
  return reason === "closing" ? "unavailable" : reason;
}

/** Whether it is a large value with this head. */
function hasHead(record: Stored, head: Uint8Array | undefined): boolean {
  return !(record instanceof Uint8Array) && head !== undefined && equal(record.h, head);
}

function equal(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
