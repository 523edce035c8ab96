import { Accounts, admits, type Change, isRow, isSnapshot, type Limits } from "./accounts.js";
import {
  abort, complete, connect, Fault, fault, LOG, PIECES, result, STORES, VALUES,
} from "./database.js";
import { Memory } from "./memory.js";
import { dropPieces, storePieces, sweepPieces } from "./pieces.js";
import {
  type Entry, Head, isDamage, opened, type Part, partLength, type Piece, type Pieces, storedSize,
} from "./record.js";
import { keyOf } from "../key.js";

export type { Limits } from "./accounts.js";
export { Fault } from "./database.js";

/** What is kept at most, in bytes, of what a database had no space for. */
const BESIDE = 64 << 20;
/** How long uses wait to be written together, in milliseconds. */
const LATER = 1000;
/** A larger transaction would delay the ones after it. */
const MOST = 2048;
/** The most bytes of large values in one transaction: Chromium fails if its Blobs exceed 450 MiB. */
const MOST_BYTES = 256 << 20;
/** After so many rows, the log is read even where it would not be, so that it is rewritten. */
const ROWS = 512;

/** A look-up of this tick. */
interface Read {
  id: string;
  isKeyOnly: boolean;
  tell: (found: unknown) => void;
}

/**
 * A change that waits for its transaction. `sync` only brings the accounts up to date; `alone` has a transaction of its
 * own.
 */
type Write =
  | { kind: "put"; id: string; entry: Entry; size: number }
  | { kind: "remove"; id: string; goes?: (record: unknown) => boolean }
  | { kind: "alone"; work: (withRow: boolean) => Promise<Outcome> }
  | { kind: "sync" };

/** Why a put was refused, if it was; whether a removal found an entry. */
type Outcome = string | boolean | undefined;

/**
 * A cache's records, in IndexedDB or in memory. A record is one value under the text of its key. The transaction that
 * changes records appends a row to the log, which says what changed; all tabs add up the rows. No fault of the browser
 * rejects: a read gets a {@link Fault}, and a write is refused with a reason of the core.
 */
export class Store {
  /** Why there is no database, or why it last did not take something. */
  reason: string | undefined;
  /** Whether large values are stored as Blobs: yes, until the browser refused one. */
  storesBlobs = true;
  /** Called with the number of evicted entries. */
  onEvicted: (count: number) => void = () => undefined;
  readonly #name: string;
  #limits: Limits;
  #connection: IDBDatabase | undefined;
  #connecting: Promise<IDBDatabase> | undefined;
  #isInMemory = false;
  #isClosed = false;
  /** Everything without a database, otherwise what the database had no space for. */
  #memory = new Memory({ maxBytes: BESIDE });
  readonly #accounts = new Accounts();
  /** The number of the last row that is in the accounts. */
  #seen = 0;
  /** How many rows there are, as far as this tab has seen them. */
  #rows = 0;
  /** Whether the accounts cover the whole database. */
  #isSettled = false;
  /** Changes that are to be written, but need no transaction of their own: mostly uses. */
  #owed = new Map<string, Change>();
  /** The ids of entries of a newer version that were seen. They are not replaced. */
  readonly #newer = new Set<string>();
  #reads: Read[] = [];
  #writes: { write: Write; resolve: (outcome: Outcome) => void }[] = [];
  #isWriting = false;
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
      store.reason = fault(error).reason;
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

  /** Looks up a record, together with the other look-ups of this tick. `tell` gets it, nothing, or a {@link Fault}. */
  read(id: string, tell: (record: unknown) => void): void {
    this.#look({ id, tell, isKeyOnly: false });
  }

  /** Returns whether there is a record, without reading it. */
  async has(id: string): Promise<boolean> {
    const found = await new Promise<unknown>((tell) => this.#look({ id, tell, isKeyOnly: true }));
    return found !== undefined && !(found instanceof Fault);
  }

  /** Notes a use, which is written later. */
  used(id: string): void {
    const now = Date.now();
    if (this.#isInMemory || this.#memory.get(id) !== undefined) return this.#memory.use(id, now);
    this.#owed.delete(id);
    this.#owed.set(id, [id, now]);
    this.#later();
  }

  /** Notes an entry of a newer version, which puts must not replace. */
  foundNewer(id: string): void {
    this.#newer.add(id);
  }

  /**
   * Removes a record that a look-up found damaged or missing, unless it was replaced since: `goes` tells whether it is
   * still the one.
   */
  async removeIf(id: string, goes: (record: unknown) => boolean): Promise<void> {
    const inMemory = this.#memory.get(id);
    if (inMemory !== undefined && goes(inMemory)) this.#memory.remove(id);
    if (!this.#isInMemory) await this.#write({ kind: "remove", id, goes });
  }

  /** Whether the accounts have an entry, which the database then should have, too. */
  expects(id: string): boolean {
    return this.#accounts.entries.has(id);
  }

  /**
   * Stores a value in a transaction with the other changes of this tick. Returns why it was refused, or nothing: then it
   * survives the death of the browser. What there is no space for after evicting is kept in memory, as far as there is
   * room.
   */
  put(id: string, entry: Entry): Promise<string | undefined> {
    return this.#write({ kind: "put", id, entry, size: storedSize(entry.record) }) as Promise<string | undefined>;
  }

  /** Removes a value. Returns whether there was one. */
  remove(id: string): Promise<boolean> {
    return this.#write({ kind: "remove", id }) as Promise<boolean>;
  }

  /** Removes all values. */
  async clear(): Promise<void> {
    await this.#write({ kind: "alone", work: (withRow) => this.#clear(withRow) });
    this.#memory.clear();
  }

  /**
   * Runs `work` with the large value's pieces in the database, of which its record tells. Another tab takes no piece
   * for one of a dead tab meanwhile. If `work` does not store the record, the pieces are removed.
   */
  async withPieces(entry: Entry, work: (entry: Entry) => Promise<boolean>): Promise<boolean> {
    const { record, head } = entry;
    if (this.#isInMemory || record instanceof Uint8Array || record.b.length < 2) return work(entry);
    const parts = record.b;
    return this.#holding("shared", async () => {
      let pieces: Pieces | undefined;
      let did = false;
      try {
        const begin = (): Promise<IDBTransaction> => this.#begun("readwrite", PIECES);
        const makeRoom = (needed: number): Promise<Outcome> =>
          this.#write({ kind: "alone", work: () => this.#makeRoom(needed) });
        pieces = await storePieces(parts, begin, makeRoom);
        did = await work({ record: { ...record, b: [], p: pieces }, head });
      } catch (error) {
        this.trouble(error);
        did = await work(entry);
      } finally {
        if (!did && pieces) await this.#drop(pieces.id).catch(() => undefined);
      }
      return did;
    }) as Promise<boolean>;
  }

  /** Returns the pieces of a payload, to be read one by one. */
  pieces({ id, lengths }: Pieces): Piece[] {
    const read = async (at: number): Promise<Part> => {
      const transaction = await this.#begun("readonly", PIECES);
      const part: unknown = await result(transaction.objectStore(PIECES).get([id, at]));
      if (partLength(part) === undefined) throw new Fault("truncated");
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
    return [this.#accounts, this.#memory.accounts];
  }

  /** Visits all records, in no particular order. */
  async each(visit: (id: string, record: unknown) => Promise<void> | void): Promise<void> {
    let ids = [...this.#memory.accounts.entries.keys()];
    if (!this.#isInMemory && !this.#isClosed) {
      const values = (await this.#begun("readonly", VALUES)).objectStore(VALUES);
      const keys = await result(values.getAllKeys());
      ids = ids.concat(keys.filter((key) => typeof key === "string"));
    }
    for (const id of ids) {
      await visit(id, await new Promise((tell) => this.read(id, tell)));
    }
  }

  /** Sets the limits, and evicts what exceeds them. */
  async setLimits(limits: Limits): Promise<void> {
    this.#limits = limits;
    if (this.#isInMemory) this.onEvicted(this.#memory.setLimits(limits));
    else await this.sync();
  }

  /** Writes uses without waiting, for a page that is being hidden and may never run again. */
  flushNow(): void {
    if (this.#isInMemory || this.#isClosed || this.#owed.size === 0) return;
    try {
      const transaction = this.#begin("readwrite", LOG);
      if (transaction instanceof Promise) return;
      transaction.objectStore(LOG).put([...this.#owed.values()]);
      transaction.commit?.();
      this.#owed.clear();
    } catch {
      // They are written later, if there is a later.
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
    this.#accounts.clear();
    this.#memory.clear();
  }

  /** Notes what failed. A database that a newer version has taken over is given up, and memory takes its place. */
  trouble(error: unknown): Fault {
    const failed = fault(error);
    this.reason = failed.reason === "closing" ? "unavailable" : failed.reason;
    if (failed.reason === "newer_version") this.#giveUp();
    return failed;
  }

  #giveUp(): void {
    if (this.#isInMemory) return;
    this.#isInMemory = true;
    clearTimeout(this.#timer);
    this.#connection?.close();
    this.#connection = undefined;
    this.#accounts.clear();
    this.onEvicted(this.#memory.setLimits(this.#limits));
  }

  #connect(): Promise<IDBDatabase> {
    if (this.#isClosed) return Promise.reject(new Fault("closed"));
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
      throw new Fault("closed");
    }
    this.#connection = connection;
    // It may have been deleted and created again.
    this.#forget();
    return connection;
  }

  /** Forgets the accounts. The next transaction that needs them reads the log. */
  #forget(): void {
    this.#accounts.clear();
    this.#seen = 0;
    this.#rows = 0;
    this.#isSettled = false;
  }

  /**
   * Begins a transaction: synchronously if there is a connection, so that it comes before all later ones; otherwise after
   * opening the database again.
   */
  #begin(mode: IDBTransactionMode, stores: string | string[]): IDBTransaction | Promise<IDBTransaction> {
    if (this.#connection !== undefined) {
      try {
        return this.#connection.transaction(stores, mode);
      } catch (error) {
        if (fault(error).reason !== "closing") throw fault(error);
        this.#connection = undefined;
      }
    }
    return this.#connect().then((connection) => connection.transaction(stores, mode));
  }

  async #begun(mode: IDBTransactionMode, stores: string | string[]): Promise<IDBTransaction> {
    return this.#begin(mode, stores);
  }

  #look(read: Read): void {
    if (this.#reads.length === 0) queueMicrotask(() => void this.#readAll());
    this.#reads.push(read);
  }

  /** Reads the records of one tick in one transaction. Each is told of while the browser reads the next one. */
  async #readAll(): Promise<void> {
    const reads = this.#reads;
    this.#reads = [];
    let told = 0;
    const next = (found: unknown): void => {
      const read = reads[told++];
      const isMissing = found === undefined || found instanceof Fault;
      read?.tell((isMissing ? this.#memory.get(read.id) : undefined) ?? found);
    };
    const rest = (found: unknown): void => {
      while (told < reads.length) next(found);
    };
    if (this.#isClosed) return rest(new Fault("closed"));
    if (this.#isInMemory) return rest(undefined);
    try {
      const begun = this.#begin("readonly", VALUES);
      const transaction = begun instanceof Promise ? await begun : begun;
      const values = transaction.objectStore(VALUES);
      transaction.onabort = () => rest(this.trouble(transaction.error));
      // Requests are answered in their order.
      const succeeded = ({ target }: Event): void => next((target as IDBRequest<unknown>).result);
      const failed = (event: Event): void => {
        // One record that the browser cannot read costs no other.
        event.preventDefault();
        next(this.trouble((event.target as IDBRequest).error));
      };
      for (const { id, isKeyOnly } of reads) {
        const request: IDBRequest = isKeyOnly ? values.getKey(id) : values.get(id);
        request.onsuccess = succeeded;
        request.onerror = failed;
      }
    } catch (error) {
      rest(this.trouble(error));
    }
  }

  /** Queues a change. One transaction at a time takes what has gathered meanwhile. */
  #write(write: Write): Promise<Outcome> {
    return new Promise((resolve) => {
      if (this.#writes.length === 0 && !this.#isWriting) queueMicrotask(() => void this.#writeAll());
      this.#writes.push({ write, resolve });
    });
  }

  async #writeAll(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#writes.length > 0) {
      const batch = this.#writes.splice(0, this.#count());
      const outcomes = await this.#run(batch.map(({ write }) => write));
      batch.forEach(({ resolve }, at) => resolve(outcomes[at]));
    }
    this.#isWriting = false;
  }

  /** Returns how many of the changes that wait belong into the next transaction. */
  #count(): number {
    let bytes = 0;
    for (const [at, { write }] of this.#writes.entries()) {
      if (write.kind === "put" && !(write.entry.record instanceof Uint8Array)) bytes += write.size;
      const isAlone = write.kind === "alone" || this.#writes[0]?.write.kind === "alone";
      if (at > 0 && (at === MOST || bytes > MOST_BYTES || isAlone)) return at;
    }
    return this.#writes.length;
  }

  /** Makes changes, all of them or none. Tries twice; after evicting where the browser's quota is exceeded. */
  async #run(writes: readonly Write[]): Promise<Outcome[]> {
    if (this.#isClosed) return writes.map((write) => (write.kind === "put" ? "closed" : false));
    if (this.#isInMemory) return writes.map((write) => this.#remember(write));
    const [first] = writes;
    const attempt = async (withRow: boolean): Promise<Outcome[]> =>
      first?.kind === "alone" ? [await first.work(withRow)] : this.#transact(writes, withRow);
    const needed = writes.reduce((sum, write) => sum + (write.kind === "put" ? write.size : 0), 0);
    let failed: Fault;
    try {
      return await attempt(true);
    } catch (error) {
      failed = this.trouble(error);
    }
    try {
      if (failed.reason === "no_space" && needed > 0 && !(await this.#makeRoom(needed))) throw failed;
      if (failed.reason === "too_long" && this.storesBlobs) await this.#withoutBlobs(writes);
      // A database over its quota accepts removals, but no row.
      return await attempt(failed.reason !== "no_space" || needed > 0);
    } catch (error) {
      failed = this.trouble(error);
    }
    if (this.#isInMemory) return writes.map((write) => this.#remember(write));
    for (const write of writes) {
      if (write.kind !== "put") continue;
      // The older value must not outlive the newer one, which memory keeps.
      this.#memory.put(write.id, write.entry, write.size, Date.now());
      const older: Write = { kind: "remove", id: write.id, goes: () => true };
      await this.#transact([older], false).catch(() => undefined);
    }
    const { reason } = this;
    return writes.map((write) => (write.kind === "put" ? reason : false));
  }

  /** Makes a change in memory. */
  #remember(write: Write): Outcome {
    if (write.kind === "put") {
      this.onEvicted(this.#memory.put(write.id, write.entry, write.size, Date.now()));
    } else if (write.kind === "remove") {
      return this.#memory.remove(write.id);
    }
    return undefined;
  }

  async #transact(writes: readonly Write[], withRow: boolean): Promise<Outcome[]> {
    const begun = this.#begin("readwrite", STORES);
    const transaction = begun instanceof Promise ? await begun : begun;
    const log = transaction.objectStore(LOG);
    // Where nothing is to be decided, nothing is read.
    const isBlind =
      this.#limits.maxBytes === undefined &&
      this.#limits.maxEntries === undefined &&
      writes.every((write) => write.kind === "put" && !this.#newer.has(write.id));
    const owed = this.#owed;
    this.#owed = new Map();
    let changes: Change[] = [...owed.values()];
    let outcomes: Outcome[];
    let evicted = 0;
    let row: IDBRequest<IDBValidKey> | undefined;
    try {
      const before = isBlind ? [] : await this.#before(transaction, writes);
      outcomes = this.#change(transaction, writes, before, changes);
      if (!isBlind) {
        this.#accounts.apply(changes);
        evicted = this.#evict(transaction, changes, () => this.#accounts.exceed(this.#limits));
        for (const id of this.#accounts.loose) dropPieces(transaction, id);
        if (withRow && this.#rows > 64 + this.#accounts.entries.size / 8) {
          log.clear();
          changes = this.#accounts.snapshot();
          this.#rows = 0;
        }
      }
      if (withRow && changes.length > 0) row = log.put(changes);
      // Otherwise the browser first waits for further requests.
      transaction.commit?.();
      await complete(transaction);
    } catch (error) {
      // All or nothing: no change is acknowledged.
      abort(transaction);
      for (const [id, change] of owed) if (!this.#owed.has(id)) this.#owed.set(id, change);
      if (!isBlind) this.#forget();
      throw error;
    }
    if (!withRow) for (const change of changes) if (change[0] !== undefined) this.#owed.set(change[0], change);
    if (row !== undefined) {
      const number = row.result as number;
      if (!isBlind) this.#seen = number - 1;
      this.#appended(number, isBlind ? changes : []);
    }
    if (!isBlind) this.#accounts.loose.clear();
    this.onEvicted(evicted);
    return outcomes;
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

  /** Requests the changes of records, and adds what the row of the log says of them. */
  #change(
    transaction: IDBTransaction,
    writes: readonly Write[],
    before: readonly unknown[],
    changes: Change[],
  ): Outcome[] {
    const values = transaction.objectStore(VALUES);
    const now = Date.now();
    const put = new Set<string>();
    return writes.map((write, at) => {
      if (write.kind === "put") {
        const { id, entry, size } = write;
        if (this.#newer.has(id) && opened(before[at], keyOf(id)) === "newer_version") return "newer_version";
        const { record, head } = entry;
        values.put(record, id);
        this.#newer.delete(id);
        this.#memory.remove(id);
        put.add(id);
        const pieces = record instanceof Uint8Array ? undefined : record.p?.id;
        changes.push([id, now, size, head.copy(), pieces]);
        return undefined;
      }
      if (write.kind !== "remove") return undefined;
      const { id, goes } = write;
      const isThere = before[at] !== undefined || put.has(id);
      if (goes && (put.has(id) || !goes(before[at]))) return false;
      const wasInMemory = !goes && this.#memory.remove(id);
      if (isThere) values.delete(id);
      if (isThere || this.#accounts.entries.has(id)) changes.push([id]);
      put.delete(id);
      return isThere || wasInMemory;
    });
  }

  /** Evicts least recently used entries while `goesOn` returns true. Returns how many. */
  #evict(transaction: IDBTransaction, changes: Change[], goesOn: () => boolean): number {
    let evicted = 0;
    for (const id of this.#accounts.entries.keys()) {
      if (!goesOn()) break;
      transaction.objectStore(VALUES).delete(id);
      this.#accounts.apply([[id]]);
      changes.push([id]);
      evicted += 1;
    }
    return evicted;
  }

  /** Makes buffers of the Blobs, where the browser does not store Blobs. */
  async #withoutBlobs(writes: readonly Write[]): Promise<void> {
    this.storesBlobs = false;
    for (const write of writes) {
      if (write.kind !== "put" || write.entry.record instanceof Uint8Array) continue;
      const { record } = write.entry;
      record.b = await Promise.all(record.b.map((part) => (part instanceof Blob ? part.arrayBuffer() : part)));
    }
  }

  /** Evicts at least this number of bytes after the quota was exceeded. Returns whether anything was evicted. */
  async #makeRoom(needed: number): Promise<boolean> {
    const { quota = Infinity } = (await navigator.storage?.estimate?.().catch(() => undefined)) ?? {};
    // Then evicting is useless.
    if (needed > quota) return false;
    const transaction = await this.#begun("readwrite", STORES);
    const changes: Change[] = [];
    try {
      await this.#catchUp(transaction);
      const { bytes } = this.#accounts;
      const evicted = this.#evict(transaction, changes, () => bytes - this.#accounts.bytes < needed);
      for (const id of this.#accounts.loose) dropPieces(transaction, id);
      await complete(transaction);
      this.onEvicted(evicted);
    } catch (error) {
      abort(transaction);
      this.#forget();
      throw error;
    }
    // The database accepts no row now; the next one has them.
    for (const change of changes) if (change[0] !== undefined) this.#owed.set(change[0], change);
    this.#accounts.loose.clear();
    return changes.length > 0;
  }

  async #clear(withRow: boolean): Promise<Outcome> {
    const transaction = await this.#begun("readwrite", STORES);
    for (const store of STORES) transaction.objectStore(store).clear();
    const row = withRow ? transaction.objectStore(LOG).put([[]]) : undefined;
    await complete(transaction);
    this.#owed.clear();
    this.#newer.clear();
    this.#forget();
    if (row !== undefined) this.#appended(row.result as number, [[]]);
    return true;
  }

  /** Adds the row that this tab has appended to the accounts, where they have all rows before it. */
  #appended(number: number, changes: readonly Change[]): void {
    if (number === this.#seen + 1 || isSnapshot(changes)) {
      this.#accounts.apply(changes);
      this.#seen = number;
      this.#rows += 1;
    }
    if (number % ROWS === 0) void this.sync();
  }

  /** Adds the rows of other tabs to the accounts. */
  async #catchUp(transaction: IDBTransaction): Promise<void> {
    const log = transaction.objectStore(LOG);
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const rows = await result<unknown[]>(log.getAll(range));
    const numbers = rows.length === 0 ? [] : await result(log.getAllKeys(range, rows.length));
    if (this.#connection !== transaction.db) throw new Fault("closing");
    let isWhole = rows.length > 0 || this.#seen > 0;
    rows.forEach((row, at) => {
      const number = numbers[at] as number;
      const is = isRow(row) && (isSnapshot(row) || number === this.#seen + 1);
      isWhole &&= is;
      this.#seen = number;
      this.#rows = isRow(row) && isSnapshot(row) ? 1 : this.#rows + 1;
      if (isRow(row)) this.#accounts.apply(row);
    });
    isWhole ||= rows.length === 0 && (await result(transaction.objectStore(VALUES).count())) === 0;
    if (!isWhole) await this.#rebuild(transaction);
    const isFirst = !this.#isSettled;
    this.#isSettled = true;
    if (isFirst) void this.#sweep();
  }

  /** Brings accounts whose rows are lost or unreadable in line with the records, and removes damaged ones. */
  async #rebuild(transaction: IDBTransaction): Promise<void> {
    const values = transaction.objectStore(VALUES);
    const ids = (await result(values.getAllKeys())).filter((key) => typeof key === "string");
    const there = new Set(ids);
    for (const id of [...this.#accounts.entries.keys()]) if (!there.has(id)) this.#accounts.apply([[id]]);
    for (const id of ids) {
      if (this.#accounts.entries.has(id)) continue;
      const record = await result<unknown>(values.get(id));
      const found = opened(record, keyOf(id));
      if (typeof found === "string" && isDamage(found)) {
        values.delete(id);
        continue;
      }
      const head = typeof found === "string" ? undefined : found.head;
      const size = storedSize(record);
      const pieces = record instanceof Uint8Array ? undefined : (record as { p?: Pieces }).p?.id;
      this.#accounts.apply([[id, head?.createdMs ?? Date.now(), size, head?.copy() ?? NOTHING, pieces]]);
    }
    const log = transaction.objectStore(LOG);
    log.clear();
    this.#seen = (await result(log.put(this.#accounts.snapshot()))) as number;
    this.#rows = 1;
  }

  /** Removes the pieces of tabs that died, unless a tab that lives is storing some. */
  async #sweep(): Promise<void> {
    const work = async (): Promise<Outcome> => {
      const transaction = await this.#begun("readwrite", STORES);
      await this.#catchUp(transaction);
      const named = new Set(Array.from(this.#accounts.entries.values(), ({ pieces }) => pieces));
      await sweepPieces(transaction, (id) => named.has(id));
      return true;
    };
    await this.#holding("exclusive", () => this.#write({ kind: "alone", work })).catch(() => undefined);
  }

  async #drop(id: string): Promise<void> {
    const transaction = await this.#begun("readwrite", PIECES);
    dropPieces(transaction, id);
    await complete(transaction);
  }

  /** Holds the lock of the pieces, where the browser has locks. An exclusive one is not waited for. */
  #holding<T>(mode: LockMode, work: () => Promise<T>): Promise<T | undefined> {
    const locks = (globalThis.navigator as Navigator | undefined)?.locks;
    if (!locks) return mode === "shared" ? work() : Promise.resolve(undefined);
    const options = { mode, ifAvailable: mode === "exclusive" };
    return locks.request(`${this.#name}:pieces`, options, async (lock) => (lock ? work() : undefined));
  }

  #later(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.sync();
    }, LATER);
  }
}

const NOTHING = new Uint8Array(0);
