import { type Accounts, admits, type Change, isUnlimited, type Limits } from "./accounts.js";
import {
  abort, complete, connect, DbError, dbError, LOG, PIECES, result, STORES, VALUES,
} from "./database.js";
import { Log } from "./log.js";
import { Memory } from "./memory.js";
import { dropPieces, removePieces, storePieces, sweepPieces } from "./pieces.js";
import {
  largeOf, opened, type Part, partLength, type Piece, type Pieces, type Stored, storedSize,
} from "./record.js";

export { DbError } from "./database.js";

/** The most bytes that memory holds of values that the database had no space for. */
const MEMORY_BYTES = 64 << 20;
/** The time for which a transaction takes more reads, in milliseconds. The writes of all tabs wait until it ends. */
const READING_MS = 10;
/** The time that uses wait to be written together, in milliseconds. */
const USES_DELAY_MS = 1000;
/** The most changes in one transaction: a larger one would delay those after it. */
const MOST_WRITES = 2048;
/** The most bytes of large values in one transaction: Chromium fails if its Blobs exceed 450 MiB. */
const MOST_BYTES = 256 << 20;
/** The number of rows after which a tab without a cap reads the log too, so that the log is rewritten. */
const SYNC_ROWS = 512;

/** A look-up that waits for its request. */
interface Read {
  id: string;
  isKeyOnly: boolean;
  resolve: (found: unknown) => void;
}

/**
 * A change that waits for its transaction. `goes` decides whether the record that is there is removed. `sync` only brings
 * the accounts up to date; `alone` has a transaction of its own.
 */
type Write =
  | { kind: "put"; id: string; record: Stored; size: number }
  | { kind: "remove"; id: string; goes?: (record: unknown) => boolean }
  | { kind: "alone"; clears?: true; work: (withRow: boolean) => Promise<Outcome> }
  | { kind: "sync" };

/** Why a put was refused, if it was; whether a removal found an entry. */
type Outcome = string | boolean | undefined;

/**
 * A cache's records, in IndexedDB or in memory. A record is one value under the text of its key. The transaction that
 * changes records appends a row to the log, which says what changed; all tabs add up the rows. Failures of the
 * browser reject no promise: a read gets a {@link DbError}, and a write is refused with a reason of the core.
 */
export class Store {
  /** Why there is no database, or why its last request failed. */
  reason: string | undefined;
  /** Whether large values are stored as Blobs: yes, until the browser refused one. */
  storesBlobs = true;
  /** Receives the number of evicted entries. */
  onEvicted: (count: number) => void = () => undefined;
  readonly #name: string;
  #limits: Limits;
  #connection: IDBDatabase | undefined;
  #connecting: Promise<IDBDatabase> | undefined;
  #isInMemory = false;
  #isClosed = false;
  /** Everything without a database, otherwise what the database had no space for. */
  #memory = new Memory({ maxBytes: MEMORY_BYTES });
  readonly #log = new Log();
  /** Whether this tab has looked for the pieces of dead tabs. */
  #isSwept = false;
  /** Changes that are to be written, but need no transaction of their own: mostly uses. */
  #owed = new Map<string, Change>();
  /** The ids of entries of a newer version that were seen. They are not replaced. */
  readonly #newer = new Set<string>();
  /** The look-ups of this tick. */
  #reads: Read[] = [];
  /**
   * Requests a record in the transaction of the last look-up, while that accepts more, so that code that awaits one
   * look-up after the other does not begin a transaction for each.
   */
  #openReader: ((read: Read) => void) | undefined;
  #writes: { write: Write; resolve: (outcome: Outcome) => void }[] = [];
  #isWriting = false;
  /** A transaction with the first of the changes that wait, see {@link #putEarly}. */
  #early: { transaction: IDBTransaction; puts: number } | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  private constructor(name: string, limits: Limits) {
    this.#name = name;
    this.#limits = limits;
  }

  /** Opens the store of this name; in memory if asked to, or if the browser has no usable database. */
  static async open(name: string, limits: Limits, inMemory: boolean): Promise<Store> {
    const store = new Store(`warmstart:${name}`, limits);
    try {
      if (inMemory) store.#giveUp();
      else await store.#connect();
    } catch (error) {
      store.#noteFailure(error);
      store.#giveUp();
    }
    return store;
  }

  get backend(): "indexeddb" | "memory" {
    return this.#isInMemory ? "memory" : "indexeddb";
  }

  /** Whether an entry of this size fits within the limits. */
  admits(size: number): boolean {
    return admits(this.#limits, size);
  }

  /**
   * Looks up a record, together with the other look-ups of this tick. `resolve` gets the record, `undefined` if there is
   * none, or a {@link DbError}.
   */
  read(id: string, resolve: (record: unknown) => void): void {
    this.#queueRead({ id, resolve, isKeyOnly: false });
  }

  /** Returns whether there is a record, without reading it. */
  async has(id: string): Promise<boolean> {
    const found = await new Promise<unknown>((resolve) => this.#queueRead({ id, resolve, isKeyOnly: true }));
    return found !== undefined && !(found instanceof DbError);
  }

  /** Notes a use, which is written later. */
  used(id: string): void {
    const now = Date.now();
    if (this.#memory.accounts.entries.has(id)) return this.#memory.accounts.apply([[id, now]]);
    this.#owed.delete(id);
    this.#owed.set(id, [id, now]);
    this.#syncLater();
  }

  /**
   * Follows up a miss. Puts do not replace an entry of a newer version. What the accounts have and the database lacks is
   * removed from them. A damaged record is removed, unless it was replaced since: `isStill` tells whether a record is
   * still the one that missed.
   */
  async missed(id: string, reason: string, isStill?: (record: unknown) => boolean): Promise<void> {
    if (reason === "newer_version") this.#newer.add(id);
    const isLost = reason === "absent" && this.#log.accounts.entries.has(id);
    const goes = isLost ? (record: unknown) => record === undefined : isStill;
    if (goes === undefined) return;
    const inMemory = this.#memory.get(id);
    if (inMemory !== undefined && goes(inMemory)) this.#memory.remove(id);
    if (!this.#isInMemory) await this.#write({ kind: "remove", id, goes });
  }

  /**
   * Stores a value in a transaction with the other changes of this tick. Returns why it was refused, or nothing: then it
   * survives the death of the browser. What there is no space for after evicting is kept in memory, as far as there is
   * room.
   */
  put(id: string, record: Stored): Promise<string | undefined> {
    return this.#write({ kind: "put", id, record, size: storedSize(record) }) as Promise<string | undefined>;
  }

  /** Removes a value. Returns whether there was one. */
  remove(id: string): Promise<boolean> {
    return this.#write({ kind: "remove", id }) as Promise<boolean>;
  }

  /** Removes all values. */
  async clear(): Promise<void> {
    await this.#write({ kind: "alone", clears: true, work: (withRow) => this.#clear(withRow) });
  }

  /**
   * Stores the payload of a record in pieces, if it has several parts, and runs `work` with a record that names them;
   * otherwise with the record as it is. If `work` does not store that, removes the pieces.
   */
  async withPieces(record: Stored, work: (record: Stored) => Promise<boolean>): Promise<boolean> {
    if (this.#isInMemory || record instanceof Uint8Array || record.b.length < 2) return work(record);
    const begin = (): Promise<IDBTransaction> => this.#begin("readwrite", PIECES);
    const makeRoom = (needed: number): Promise<Outcome> =>
      this.#write({ kind: "alone", work: () => this.#makeRoom(needed) });
    let pieces: Pieces;
    try {
      pieces = await storePieces(record.b, begin, makeRoom);
    } catch (error) {
      this.#noteFailure(error);
      return work(record);
    }
    const did = await work({ ...record, b: [], p: pieces });
    if (!did) await removePieces(pieces.id, begin).catch(() => undefined);
    return did;
  }

  /** Returns the pieces of a payload, to be read one by one. */
  pieces({ id, lengths }: Pieces): Piece[] {
    const read = async (at: number): Promise<Part> => {
      const transaction = await this.#begin("readonly", PIECES);
      const part: unknown = await result(transaction.objectStore(PIECES).get([id, at]));
      if (partLength(part) === undefined) throw new DbError("truncated");
      return part as Part;
    };
    return lengths.map((size, at) => ({ size, read: () => read(at) }));
  }

  /** Writes what is owed, evicts what exceeds the limits, and brings the accounts up to date. */
  async sync(): Promise<void> {
    if (!this.#isInMemory && !this.#isClosed) await this.#write({ kind: "sync" });
  }

  /** Returns the accounts of all entries, the least recently used first, after {@link sync}. */
  async accounts(): Promise<[stored: Accounts, beside: Accounts]> {
    await this.sync();
    return [this.#log.accounts, this.#memory.accounts];
  }

  /** Sets the limits, and evicts what exceeds them. */
  async setLimits(limits: Limits): Promise<void> {
    this.#limits = limits;
    if (this.#isInMemory) this.onEvicted(this.#memory.setLimits(limits));
    else await this.sync();
  }

  /** Writes uses without waiting, for a page that is being hidden and may never run again. */
  flushNow(): void {
    const uses = [...this.#owed.values()].filter(isUse);
    if (this.#connection === undefined || uses.length === 0) return;
    try {
      const transaction = this.#connection.transaction(LOG, "readwrite");
      transaction.objectStore(LOG).put(uses);
      transaction.commit?.();
      for (const [id] of uses) this.#owed.delete(id!);
    } catch {
      // They are written later, if the page continues.
    }
  }

  /** Writes what is owed and closes the database. Later reads miss, and later writes are refused. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.sync();
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#connection?.close();
    this.#connection = undefined;
    this.#log.accounts.clear();
    this.#memory.clear();
  }

  /** Records a failure, and returns it. If a newer version has upgraded the database, memory takes its place. */
  #noteFailure(error: unknown): DbError {
    const failed = dbError(error);
    this.reason = failed.reason;
    if (failed.reason === "newer_version") this.#giveUp();
    return failed;
  }

  #giveUp(): void {
    if (this.#isInMemory) return;
    this.#isInMemory = true;
    clearTimeout(this.#timer);
    if (this.#early) abort(this.#early.transaction);
    this.#connection?.close();
    this.#connection = undefined;
    this.#log.accounts.clear();
    this.onEvicted(this.#memory.setLimits(this.#limits));
  }

  #connect(): Promise<IDBDatabase> {
    if (this.#isClosed) return Promise.reject(new DbError("closed"));
    this.#connecting ??= connect(this.#name)
      .then((connection) => this.#adopt(connection))
      .finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  #adopt(connection: IDBDatabase): IDBDatabase {
    const release = (): void => {
      connection.close();
      if (this.#connection === connection) this.#connection = undefined;
    };
    // A tab that upgrades or deletes the database waits until all others have closed it.
    connection.onversionchange = release;
    connection.onclose = release;
    if (this.#isClosed) {
      connection.close();
      throw new DbError("closed");
    }
    this.#connection = connection;
    // It may have been deleted and created again.
    this.#log.forget();
    return connection;
  }

  /**
   * Begins a transaction. If the database is open, does so before it first waits, so that transactions have the order of
   * the calls.
   */
  async #begin(mode: IDBTransactionMode, stores: string | string[]): Promise<IDBTransaction> {
    try {
      if (this.#connection) return this.#connection.transaction(stores, mode);
    } catch (error) {
      // The connection is closing: another tab deletes or upgrades the database, or site data was cleared.
      if ((error as DOMException).name !== "InvalidStateError") throw error;
      this.#connection = undefined;
    }
    return (await this.#connect()).transaction(stores, mode);
  }

  #queueRead(read: Read): void {
    if (this.#reads.length === 0) queueMicrotask(() => void this.#readAll());
    this.#reads.push(read);
  }

  /** Reads the records of one tick in one transaction. Each call gets its record while the browser reads the next one. */
  async #readAll(): Promise<void> {
    const reads = this.#reads;
    this.#reads = [];
    // Records with neighbouring keys lie close together on the disk.
    if (reads.length > 1) reads.sort((one, other) => (one.id < other.id ? -1 : Number(one.id > other.id)));
    let requested = 0;
    const requestAll = (request: (read: Read) => void): void => {
      for (; requested < reads.length; requested += 1) request(reads[requested]!);
    };
    const resolveRest = (found: unknown): void => reads.slice(requested).forEach((read) => this.#resolve(read, found));
    if (this.#isClosed) return resolveRest(new DbError("closed"));
    if (this.#isInMemory) return resolveRest(undefined);
    try {
      if (this.#openReader) return requestAll(this.#openReader);
    } catch {
      // Its transaction has ended, or accepts requests only while the browser hands out the next result.
    }
    try {
      requestAll(await this.#beginReader());
    } catch (error) {
      resolveRest(this.#noteFailure(error));
    }
  }

  /** Ends a look-up. If the database has nothing or fails, memory may have what there was no space for. */
  #resolve({ id, resolve }: Read, found: unknown): void {
    const isMissing = found === undefined || found instanceof DbError;
    resolve((isMissing ? this.#memory.get(id) : undefined) ?? found);
  }

  /** Begins a transaction that reads. Returns a function that requests a record in it. */
  async #beginReader(): Promise<(read: Read) => void> {
    const transaction = await this.#begin("readonly", VALUES);
    const values = transaction.objectStore(VALUES);
    const until = performance.now() + READING_MS;
    const request = (read: Read): void => {
      const requested: IDBRequest = read.isKeyOnly ? values.getKey(read.id) : values.get(read.id);
      requested.onsuccess = () => {
        const isFree = this.#writes.length === 0 && !this.#isWriting && performance.now() < until;
        this.#openReader = isFree ? request : undefined;
        this.#resolve(read, requested.result);
      };
      requested.onerror = (event) => {
        // A record that the browser cannot read must not fail the reads of others.
        event.preventDefault();
        this.#openReader = undefined;
        this.#resolve(read, this.#noteFailure(requested.error));
      };
    };
    transaction.oncomplete = () => (this.#openReader = undefined);
    return request;
  }

  /** Queues a change. One transaction at a time takes what has gathered meanwhile. */
  #write(write: Write): Promise<Outcome> {
    return new Promise((resolve) => {
      if (this.#writes.length === 0 && !this.#isWriting) queueMicrotask(() => void this.#writeAll());
      this.#putEarly(write);
      this.#writes.push({ write, resolve });
    });
  }

  /**
   * Requests the put of a small value at once, so that the browser works on it while the next values of this tick are
   * encoded. {@link #transact} continues in the same transaction. Does so only while all changes before are such puts, so
   * that the requests keep the order of the changes.
   */
  #putEarly(write: Write): void {
    const { length } = this.#writes;
    const isFirst = !this.#isWriting && length === (this.#early?.puts ?? 0) && length < MOST_WRITES;
    if (!isFirst || write.kind !== "put" || !(write.record instanceof Uint8Array) || this.#newer.has(write.id)) return;
    try {
      if (length === 0) this.#early = undefined;
      const transaction = this.#early?.transaction ?? this.#connection?.transaction(STORES, "readwrite");
      if (!transaction) return;
      this.#early = { transaction, puts: length + 1 };
      transaction.objectStore(VALUES).put(write.record, write.id);
    } catch {
      // The request is made again later, and its failure is reported then.
      if (this.#early) abort(this.#early.transaction);
      this.#early = undefined;
    }
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#writes.length > 0) {
      const batch = this.#writes.splice(0, this.#batchLength());
      const outcomes = await this.#run(batch.map(({ write }) => write));
      batch.forEach(({ resolve }, at) => resolve(outcomes[at]));
    }
    this.#isWriting = false;
  }

  /** Returns how many of the changes that wait go into the next transaction. */
  #batchLength(): number {
    let bytes = 0;
    for (const [at, { write }] of this.#writes.entries()) {
      if (write.kind === "put" && !(write.record instanceof Uint8Array)) bytes += write.size;
      const isAlone = write.kind === "alone" || this.#writes[0]?.write.kind === "alone";
      if (at > 0 && (at === MOST_WRITES || bytes > MOST_BYTES || isAlone)) return at;
    }
    return this.#writes.length;
  }

  /**
   * Makes changes, all of them or none. Tries twice; before the second time, evicts if the browser's quota is exceeded.
   * Values whose puts fail twice are kept in memory.
   */
  async #run(writes: readonly Write[]): Promise<Outcome[]> {
    if (this.#isClosed) return writes.map((write) => (write.kind === "put" ? "closed" : false));
    if (this.#isInMemory) return writes.map((write) => this.#remember(write));
    const [first] = writes;
    const attempt = async (withRow: boolean): Promise<Outcome[]> =>
      first?.kind === "alone" ? [await first.work(withRow)] : (await this.#transact(writes, withRow)).outcomes;
    const needed = writes.reduce((sum, write) => sum + (write.kind === "put" ? write.size : 0), 0);
    let failed: DbError;
    try {
      return await attempt(true);
    } catch (error) {
      failed = this.#noteFailure(error);
    }
    try {
      if (failed.reason === "no_space" && needed > 0 && !(await this.#makeRoom(needed))) throw failed;
      if (failed.reason === "too_long" && this.storesBlobs) await this.#withoutBlobs(writes);
      // A database over its quota accepts removals, but no row.
      return await attempt(failed.reason !== "no_space" || needed > 0);
    } catch (error) {
      this.#noteFailure(error);
    }
    if (this.#isInMemory) return writes.map((write) => this.#remember(write));
    for (const write of writes) {
      if (write.kind !== "put") continue;
      // The older value must not outlive the newer one, which memory keeps.
      this.#memory.put(write.id, write.record, write.size, Date.now());
      const older: Write = { kind: "remove", id: write.id, goes: () => true };
      await this.#transact([older], false).catch(() => undefined);
    }
    const { reason } = this;
    return writes.map((write) => (write.kind === "put" ? reason : false));
  }

  /** Makes a change in memory. */
  #remember(write: Write): Outcome {
    if (write.kind === "put") this.onEvicted(this.#memory.put(write.id, write.record, write.size, Date.now()));
    if (write.kind === "remove") return this.#memory.remove(write.id);
    if (write.kind === "alone" && write.clears) this.#memory.clear();
    return undefined;
  }

  /** Makes changes in one transaction, and evicts what exceeds the limits, and at least `needed` bytes. */
  async #transact(
    writes: readonly Write[],
    withRow: boolean,
    needed = 0,
  ): Promise<{ outcomes: Outcome[]; evicted: number }> {
    const [early, owed] = [this.#early, this.#owed];
    this.#early = undefined;
    const transaction = early?.transaction ?? (await this.#begin("readwrite", STORES));
    const { accounts } = this.#log;
    this.#owed = new Map();
    const changes: Change[] = [];
    // Where nothing is to be decided, nothing is read.
    const isBlind =
      needed === 0 && isUnlimited(this.#limits) && [...owed.values()].every(isUse) &&
      writes.every((write) => write.kind === "put" && !this.#newer.has(write.id));
    let outcomes: Outcome[];
    let evicted = 0;
    let committed: (() => number) | undefined;
    try {
      const before = isBlind ? [] : await this.#before(transaction, writes);
      // What is owed as a removal may have been stored again by another tab.
      for (const each of owed.values()) {
        const there = isUse(each) ? undefined : await result(transaction.objectStore(VALUES).getKey(each[0]!));
        if (there === undefined) changes.push(each);
      }
      outcomes = this.#change(transaction, writes, before, changes, early?.puts ?? 0);
      if (!isBlind) {
        accounts.apply(changes);
        evicted = this.#evict(transaction, changes, accounts.bytes - needed);
      }
      if (withRow) committed = this.#log.append(transaction, changes, !isBlind);
      // Otherwise the browser first waits for further requests.
      transaction.commit?.();
      // Without changes, no caller depends on the commit.
      if (committed || changes.length > 0) await complete(transaction);
    } catch (error) {
      // All or nothing: no change is acknowledged.
      abort(transaction);
      for (const [id, change] of owed) if (!this.#owed.has(id)) this.#owed.set(id, change);
      if (!isBlind) this.#log.forget();
      throw error;
    }
    // The next row has these changes.
    if (!withRow) for (const change of changes) if (change[0] !== undefined) this.#owed.set(change[0], change);
    if (!isBlind) accounts.loose.clear();
    this.onEvicted(evicted);
    if (committed && (committed() + 1) % SYNC_ROWS === 0) void this.sync();
    return { outcomes, evicted };
  }

  /** Brings the accounts up to date, and reads the records that changes depend on. */
  async #before(transaction: IDBTransaction, writes: readonly Write[]): Promise<unknown[]> {
    const values = transaction.objectStore(VALUES);
    const caughtUp = this.#catchUp(transaction);
    // If a later request throws, no code awaits it.
    caughtUp.catch(() => undefined);
    const reads = writes.map((write) => {
      if (write.kind === "remove" && !write.goes) return result(values.getKey(write.id));
      if (write.kind === "remove") return result<unknown>(values.get(write.id));
      return write.kind === "put" && this.#newer.has(write.id) ? result<unknown>(values.get(write.id)) : undefined;
    });
    await caughtUp;
    return Promise.all(reads);
  }

  /** Requests changes of records, of which the first `requested` already are, and adds those of the log to `changes`. */
  #change(
    transaction: IDBTransaction,
    writes: readonly Write[],
    before: readonly unknown[],
    changes: Change[],
    requested: number,
  ): Outcome[] {
    const values = transaction.objectStore(VALUES);
    const now = Date.now();
    const put = new Set<string>();
    return writes.map((write, at) => {
      if (write.kind === "put") {
        const { id, record, size } = write;
        if (this.#newer.has(id) && opened(before[at], id) === "newer_version") return "newer_version";
        if (at >= requested) values.put(record, id);
        this.#newer.delete(id);
        this.#memory.remove(id);
        put.add(id);
        changes.push([id, now, size, largeOf(record)]);
        return undefined;
      }
      if (write.kind !== "remove") return undefined;
      const { id, goes } = write;
      const isThere = before[at] !== undefined || put.has(id);
      if (goes && (put.has(id) || !goes(before[at]))) return false;
      const wasInMemory = !goes && this.#memory.remove(id);
      if (isThere) values.delete(id);
      if (isThere || this.#log.accounts.entries.has(id)) changes.push([id]);
      put.delete(id);
      return isThere || wasInMemory;
    });
  }

  /**
   * Evicts least recently used entries while they exceed the limits or are more than `most` bytes, and removes the pieces
   * of entries that are gone. Returns how many it evicted.
   */
  #evict(transaction: IDBTransaction, changes: Change[], most: number): number {
    const { accounts } = this.#log;
    let evicted = 0;
    for (const id of accounts.entries.keys()) {
      if (accounts.bytes <= most && !accounts.exceed(this.#limits)) break;
      transaction.objectStore(VALUES).delete(id);
      accounts.apply([[id]]);
      changes.push([id]);
      evicted += 1;
    }
    for (const id of accounts.loose) dropPieces(transaction, id);
    return evicted;
  }

  /** Replaces the Blobs of records by buffers, for a browser that does not store Blobs. */
  async #withoutBlobs(writes: readonly Write[]): Promise<void> {
    this.storesBlobs = false;
    for (const write of writes) {
      if (write.kind !== "put" || write.record instanceof Uint8Array) continue;
      const { record } = write;
      record.b = await Promise.all(record.b.map((part) => (part instanceof Blob ? part.arrayBuffer() : part)));
    }
  }

  /** Evicts at least this number of bytes after the quota was exceeded. Returns whether anything was evicted. */
  async #makeRoom(needed: number): Promise<boolean> {
    const { quota = Infinity } = (await navigator.storage?.estimate?.().catch(() => undefined)) ?? {};
    // A value above the quota never fits. A database over its quota accepts no row.
    return needed <= quota && (await this.#transact([], false, needed)).evicted > 0;
  }

  async #clear(withRow: boolean): Promise<Outcome> {
    this.#memory.clear();
    const transaction = await this.#begin("readwrite", STORES);
    for (const store of STORES) transaction.objectStore(store).clear();
    this.#log.forget();
    const committed = withRow ? this.#log.append(transaction, [[]], true) : undefined;
    await complete(transaction);
    committed?.();
    this.#owed.clear();
    this.#newer.clear();
    return true;
  }

  async #catchUp(transaction: IDBTransaction): Promise<void> {
    await this.#log.catchUp(transaction);
    // The database was opened again meanwhile, which emptied the accounts: this transaction has read only the later rows.
    if (this.#connection !== transaction.db) {
      this.#log.forget();
      throw new DbError("unavailable");
    }
    if (this.#isSwept) return;
    this.#isSwept = true;
    // No caller has to wait for this.
    setTimeout(() => void this.#write({ kind: "alone", work: () => this.#sweep() }));
  }

  /** Removes the pieces that dead tabs left. */
  async #sweep(): Promise<Outcome> {
    const transaction = await this.#begin("readwrite", STORES);
    const keys = result(transaction.objectStore(PIECES).getAllKeys());
    const [pieces] = await Promise.all([keys, this.#catchUp(transaction)]);
    const { entries } = this.#log.accounts;
    sweepPieces(transaction, pieces, new Set(Array.from(entries.values(), ({ large }) => large?.p?.id)));
    await complete(transaction);
    return undefined;
  }

  #syncLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#owed.size > 0) void this.sync();
    }, USES_DELAY_MS);
  }
}

/** Tells a use from a removal, the other owed change, which must not remove what another tab has stored since. */
const isUse = (change: Change): boolean => change.length > 1;
