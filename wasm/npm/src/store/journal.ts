import type { Engine } from "../engine.js";
import { type Database, DIRECTORY, ENTRIES, JOURNAL, PIECES } from "./database.js";
import type { Directory } from "./directory.js";
import { abort, complete, Fault, fault, result, whole } from "./idb.js";
import { split, textOf } from "./name.js";
import { isPacked, numberAt, readPlaces } from "./pack.js";
import { removePieces, sweepPieces } from "./pieces.js";
import { rebuild } from "./rebuild.js";
import { isDamage, Records, seenLength, type Stored } from "./record.js";

/** How long pending records wait for more, in milliseconds. */
const FLUSH_MS = 200;

/**
 * The accounting that all tabs share: sizes, the order of use, and eviction. One transaction stores an entry,
 * and a later one accounts for it, so that `put` does not wait for it. If a tab dies between the two, the next
 * tab that opens the database counts the entry. The tabs take turns to write the journal.
 */
export class Journal {
  readonly ledger: InstanceType<Engine["Ledger"]>;
  #engine: Engine;
  #database: Database;
  #directory: Directory;
  /** The number of the last row that was replayed. */
  #seen = 0;
  /** The opening of the database that the ledger belongs to. */
  #opening: number;
  /** Whether the ledger covers the whole database. */
  #isSettled = false;
  /** The row that is being written. */
  #writing: Uint8Array | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #limits: [maxBytes: number | undefined, maxEntries: number | undefined];
  /** Called with the number of evicted entries. */
  onEvicted: (entries: number) => void = () => {};

  constructor(
    engine: Engine,
    database: Database,
    directory: Directory,
    maxBytes?: number,
    maxEntries?: number,
  ) {
    this.#engine = engine;
    this.#database = database;
    this.#directory = directory;
    this.#opening = database.openings;
    this.#limits = [maxBytes, maxEntries];
    this.ledger = new engine.Ledger(maxBytes, maxEntries);
  }

  /** Schedules writing the journal, together with records that arrive until then. */
  flushSoon(): void {
    if (this.#timer !== undefined || !this.ledger.has_pending) return;
    this.#timer = setTimeout(() => {
      void this.sync().catch(() => {});
    }, FLUSH_MS);
  }

  /** Writes pending records, reads those of other tabs, and evicts down to the limits. */
  async sync(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#inTurn(async () => {
      if (!this.#isSettled || !this.#directory.isWhole) await this.#settle();
      else await this.#exchange();
      if (this.#directory.shouldCompact) await this.#directory.compact(this.#database);
    });
    await this.keepLimits();
  }

  /**
   * Writes pending records without waiting, because a hidden page may never run again. Records that are being
   * written may get lost then, so they are written once more; writing them twice is harmless.
   */
  writeNow(): void {
    const rows = [this.#writing, this.ledger.take()].filter((row) => row !== undefined && row.length > 0);
    if (rows.length === 0) return;
    try {
      const transaction = this.#database.begin(JOURNAL, "readwrite");
      if (transaction instanceof Promise) throw new Fault("closing");
      for (const row of rows) transaction.objectStore(JOURNAL).put(row);
      transaction.onabort = () => this.ledger.put_back();
      transaction.commit();
    } catch {
      this.ledger.put_back();
    }
  }

  setLimits(maxBytes?: number, maxEntries?: number): Promise<void> {
    this.#limits = [maxBytes, maxEntries];
    this.ledger.set_limits(maxBytes, maxEntries);
    return this.keepLimits();
  }

  /** Evicts least recently used entries until the rest is within the limits. */
  async keepLimits(): Promise<void> {
    const { ledger } = this;
    const hasLimits = this.#limits.some((limit) => limit !== undefined);
    if (!hasLimits || (this.#isSettled && !ledger.exceeds)) return;
    await this.#inTurn(() => this.#evict(() => ledger.exceeds));
  }

  /** Evicts least recently used entries until at least `bytes` are free. Returns how many are. */
  makeRoom(bytes: number): Promise<number> {
    return this.#inTurn(() => this.#evict((freed) => freed < bytes));
  }

  /** Removes all entries. */
  clear(): Promise<void> {
    return this.#inTurn(async () => {
      try {
        await this.#clear(true);
        this.#isSettled = true;
      } catch (error) {
        if (fault(error).reason !== "no_space") throw error;
        // A database over its quota accepts removals, but no row. The old rows list the names that are removed
        // next.
        await this.#clear(false);
        this.#unsettle();
      }
    });
  }

  /** Returns all rows, of which some are out of date. */
  async rows(): Promise<Uint8Array[]> {
    const transaction = await this.#database.begin(JOURNAL, "readonly");
    const rows: unknown[] = await result(transaction.objectStore(JOURNAL).getAll());
    return rows.filter((row) => row instanceof Uint8Array);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Writes this tab's records, and replays those of other tabs. */
  async #exchange(): Promise<void> {
    const transaction = await this.#database.begin([DIRECTORY, JOURNAL], "readwrite");
    const rows = transaction.objectStore(JOURNAL);
    const [isWhole] = await Promise.all([
      this.#catchUp(rows),
      this.#directory.catchUp(this.#database, transaction),
    ]);
    if (!this.#agrees()) {
      abort(transaction);
      this.#unsettle();
      return this.#settle();
    }
    if (isWhole && this.ledger.should_compact) {
      return this.#whole(transaction, () => this.#rewrite(rows));
    }
    const row = this.ledger.take();
    this.#writing = row;
    try {
      if (row.length > 0) await this.#append(rows, row);
      await complete(transaction);
    } catch (error) {
      this.ledger.put_back();
      throw error;
    } finally {
      this.#writing = undefined;
    }
    if (!isWhole) this.#unsettle();
  }

  /**
   * Reconciles journal and directory: counts entries whose tab died before it accounted for them, and removes
   * names without an entry. Rebuilds an unreadable directory from the entries.
   */
  async #settle(): Promise<void> {
    const directory = this.#directory;
    const { transaction, entries, rows } = await this.#beginAll();
    let done = () => {};
    await this.#whole(transaction, async () => {
      await directory.catchUp(this.#database, transaction);
      if (!directory.isWhole) {
        const { places, replaced } = await rebuild(this.#engine, entries);
        done = directory.rewrite(transaction, places, replaced);
        // The ledger follows as soon as the directory is rebuilt.
        this.#isSettled = false;
        return;
      }
      const isWhole = await this.#catchUp(rows);
      if (!isWhole) this.ledger.reset();
      await this.#count(entries, [...split(this.ledger.settle(directory.sortedNames(), Date.now()))]);
      if (!isWhole) await this.#rewrite(rows);
      this.#isSettled = true;
    });
    done();
    if (!this.#isSettled) return this.#settle();
    await this.#account();
    await directory.tidy(this.#database);
    void sweepPieces(this.#database, directory).catch(() => {});
  }

  /** Counts entries that the journal lacks. Removes damaged ones. */
  async #count(entries: IDBObjectStore, names: Uint8Array<ArrayBuffer>[]): Promise<void> {
    const records = new Records(this.#engine);
    const places = names.map((name) => this.#directory.placeOf(name) ?? 0);
    const found = await readPlaces(entries, places);
    names.forEach((name, at) => {
      const record = found[at];
      if (record === undefined) return this.#directory.forget(name, places[at]);
      const reason = records.under(record, name);
      if (reason === undefined) {
        this.ledger.stored(name, records.size(), records.about().createdMs);
      } else if (isDamage(reason)) {
        // A look-up removes a damaged entry of a pack.
        if (isPacked(places[at]!)) return;
        entries.delete(places[at]!);
        this.#directory.forget(name, places[at]);
      } else {
        // An entry of a newer version stays, and counts with its visible size.
        this.ledger.stored(name, seenLength(record as Stored), Date.now());
      }
    });
    records.reader.free();
  }

  /** Removes all entries. Over quota, no row records it. */
  async #clear(withRows: boolean): Promise<void> {
    const { transaction, pieces, rows } = await this.#beginAll();
    let done = () => {};
    await this.#whole(transaction, async () => {
      await this.#directory.catchUp(this.#database, transaction);
      done = this.#directory.clear(transaction, withRows);
      pieces.clear();
      if (!withRows) return;
      rows.clear();
      this.ledger.reset();
      await this.#append(rows, this.ledger.snapshot());
    });
    done();
  }

  /** Evicts while `goesOn` returns true for the number of bytes that are free so far. */
  async #evict(goesOn: (freed: number) => boolean): Promise<number> {
    try {
      return await this.#evictInOne(goesOn, true);
    } catch (error) {
      const { reason } = fault(error);
      if (reason === "busy") return this.#evictInOne(goesOn, true);
      if (reason !== "no_space") throw error;
      // A database over its quota accepts removals, but no row.
      return this.#evictInOne(goesOn, false);
    }
  }

  /** Evicts in one transaction. Over quota, no row records it. */
  async #evictInOne(goesOn: (freed: number) => boolean, withRows: boolean): Promise<number> {
    if (!this.#isSettled) await this.#settle();
    const { transaction, entries, pieces, rows } = await this.#beginAll();
    if (!(await this.#catchUp(rows))) {
      this.#unsettle();
      return 0;
    }
    const { ledger } = this;
    let freed = 0;
    const names: Uint8Array<ArrayBuffer>[] = [];
    let done = () => {};
    await this.#whole(transaction, async () => {
      await this.#directory.catchUp(this.#database, transaction);
      // The ledger is reconciled before it decides on evictions.
      if (!this.#agrees()) throw new Fault("busy");
      while (goesOn(freed)) {
        const name = ledger.oldest() as Uint8Array<ArrayBuffer> | undefined;
        if (name === undefined) break;
        const place = this.#directory.placeOf(name);
        // An entry that other code removed frees no space.
        const isThere = place !== undefined && (await result(entries.getKey(numberAt(place)))) !== undefined;
        if (isThere) names.push(name);
        removePieces(pieces, name);
        freed += isThere ? ledger.size_of(name) : 0;
        ledger.removed(name, Date.now());
      }
      done = await this.#directory.remove(transaction, names, withRows);
      const row = withRows ? ledger.take() : NOTHING;
      if (row.length > 0) await this.#append(rows, row);
    });
    done();
    if (names.length > 0) this.onEvicted(names.length);
    return freed;
  }

  /** Writes pending records, and retries later if it cannot. */
  async #account(): Promise<void> {
    if (this.ledger.has_pending) await this.#exchange().catch(() => {});
  }

  /**
   * Whether pending records are still true. Other tabs may have removed an entry stored here, or stored one
   * removed here, and written their row: a later row of this tab would override theirs.
   */
  #agrees(): boolean {
    const stored = [...split(this.ledger.pending_stored())];
    const removed = [...split(this.ledger.pending_removed())];
    const texts = new Set(stored.map(textOf));
    // For names in both lists, this tab's own order decides.
    const both = new Set(removed.map(textOf).filter((text) => texts.has(text)));
    const agrees = (name: Uint8Array, isThere: boolean): boolean =>
      both.has(textOf(name)) || (this.#directory.placeOf(name) !== undefined) === isThere;
    return stored.every((name) => agrees(name, true)) && removed.every((name) => agrees(name, false));
  }

  /** Replays new rows. Returns whether all of them could be read. */
  async #catchUp(rows: IDBObjectStore): Promise<boolean> {
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const requests = [result(rows.getAll(range)), result(rows.getAllKeys(range))] as const;
    const [contents, numbers] = await Promise.all(requests);
    let isWhole = true;
    for (const row of contents) isWhole = row instanceof Uint8Array && this.ledger.replay(row) && isWhole;
    const last = numbers.at(-1);
    if (typeof last === "number") {
      this.#seen = last;
      this.ledger.reapply();
    }
    return isWhole;
  }

  /** Replaces all rows by a snapshot, including the pending records. */
  async #rewrite(rows: IDBObjectStore): Promise<void> {
    rows.clear();
    await this.#append(rows, this.ledger.snapshot());
  }

  async #append(rows: IDBObjectStore, row: Uint8Array): Promise<void> {
    this.#seen = (await result(rows.put(row))) as number;
  }

  async #beginAll() {
    const transaction = await this.#database.begin([ENTRIES, DIRECTORY, PIECES, JOURNAL], "readwrite");
    const entries = transaction.objectStore(ENTRIES);
    const pieces = transaction.objectStore(PIECES);
    const rows = transaction.objectStore(JOURNAL);
    return { transaction, entries, pieces, rows };
  }

  /**
   * Does the work of a transaction, completely or not at all. After a failure the changes to the ledger did not
   * happen, so all rows are read again.
   */
  async #whole(transaction: IDBTransaction, work: () => Promise<void>): Promise<void> {
    try {
      await whole(transaction, work);
    } catch (error) {
      this.#unsettle();
      throw error;
    }
  }

  #unsettle(): void {
    this.ledger.reset();
    this.#seen = 0;
    this.#isSettled = false;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(() => {
      if (this.#opening !== this.#database.openings) this.#unsettle();
      this.#opening = this.#database.openings;
      return work();
    });
    this.#turn = done.catch(() => {});
    return done;
  }
}

const NOTHING = new Uint8Array(0);
