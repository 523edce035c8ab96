import type { Engine } from "../engine.js";
import { type Database, DIRECTORY, ENTRIES, JOURNAL, PIECES } from "./database.js";
import type { Directory } from "./directory.js";
import { abort, complete, Fault, fault, result, whole } from "./idb.js";
import { split, textOf } from "./name.js";
import { isPacked, numberAt, readPlaces } from "./pack.js";
import { removePieces, sweepPieces } from "./pieces.js";
import { rebuild } from "./rebuild.js";
import { isDamage, Records, seenLength, type Stored } from "./record.js";

/** How long records of the journal may wait for company, in milliseconds. */
const FLUSH_MS = 200;

/**
 * The accounts of a database that all tabs share: sizes, the order of use, what goes. An entry is stored by
 * one transaction and accounted for by a later one, off the path of whoever stores it; what a tab stored that
 * died between the two is found by the next one to open the database. Who may write the journal is decided by
 * turns.
 */
export class Journal {
  readonly ledger: InstanceType<Engine["Ledger"]>;
  #engine: Engine;
  #database: Database;
  #directory: Directory;
  /** The number of the last row that was replayed. */
  #seen = 0;
  /** The opening of the database that the accounts are of. */
  #opening: number;
  /** Whether the accounts are those of the whole database. */
  #isSettled = false;
  /** The row that is being written. */
  #writing: Uint8Array | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #limits: [maxBytes: number | undefined, maxEntries: number | undefined];
  /** Told how many entries were evicted. */
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

  /** Has the journal written in a while, together with what comes until then. */
  flushSoon(): void {
    if (this.#timer !== undefined || !this.ledger.has_pending) return;
    this.#timer = setTimeout(() => {
      void this.sync().catch(() => {});
    }, FLUSH_MS);
  }

  /** Writes what is pending, reads what other tabs wrote, and evicts what is too much. */
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
   * Writes what is pending without waiting for anything: a page that is hidden may never run again. What is
   * being written may not arrive then, so it is written once more; twice is as good as once.
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

  /** Evicts what is longest unused, while there is more than the limits allow. */
  async keepLimits(): Promise<void> {
    const { ledger } = this;
    const hasLimits = this.#limits.some((limit) => limit !== undefined);
    if (!hasLimits || (this.#isSettled && !ledger.exceeds)) return;
    await this.#inTurn(() => this.#evict(() => ledger.exceeds));
  }

  /** Evicts what is longest unused, until at least so many bytes are free. Gives how many are. */
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
        // A database that is over its quota takes no row, but lets entries go. The old rows tell of what is
        // struck out next.
        await this.#clear(false);
        this.#unsettle();
      }
    });
  }

  /** Every row, of which some are of no account any more. */
  async rows(): Promise<Uint8Array[]> {
    const transaction = await this.#database.begin(JOURNAL, "readonly");
    const rows: unknown[] = await result(transaction.objectStore(JOURNAL).getAll());
    return rows.filter((row) => row instanceof Uint8Array);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Tells the others what this tab did, and learns what they did. */
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
   * Brings accounts and directory to agreement: counts what a tab stored that died before it accounted for
   * it, and strikes out what is gone. A directory that cannot be read is made anew from the entries.
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
        // The accounts follow as soon as it is there.
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

  /** Counts entries that nobody has counted. What is damaged goes. */
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
        // One of a pack goes when somebody looks for it.
        if (isPacked(places[at]!)) return;
        entries.delete(places[at]!);
        this.#directory.forget(name, places[at]);
      } else {
        // A newer version's: left alone, and counted by what is seen of it.
        this.ledger.stored(name, seenLength(record as Stored), Date.now());
      }
    });
    records.reader.free();
  }

  /** Removes all entries. Without rows, nothing says so. */
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

  /** Evicts while `goesOn` says so, given how many bytes are free already. */
  async #evict(goesOn: (freed: number) => boolean): Promise<number> {
    try {
      return await this.#evictInOne(goesOn, true);
    } catch (error) {
      const { reason } = fault(error);
      if (reason === "busy") return this.#evictInOne(goesOn, true);
      if (reason !== "no_space") throw error;
      // A database that is over its quota lets entries go, but takes no row.
      return this.#evictInOne(goesOn, false);
    }
  }

  /** The same in one transaction. Without rows, nothing says what went. */
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
      // Accounts are made to agree before anything goes for them.
      if (!this.#agrees()) throw new Fault("busy");
      while (goesOn(freed)) {
        const name = ledger.oldest() as Uint8Array<ArrayBuffer> | undefined;
        if (name === undefined) break;
        const place = this.#directory.placeOf(name);
        // What is gone behind the back of all caches gives no room.
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

  /** Writes what is pending. What cannot be written now is tried again later. */
  async #account(): Promise<void> {
    if (this.ledger.has_pending) await this.#exchange().catch(() => {});
  }

  /**
   * Whether what is pending is still so. Others may have removed since what was stored here, or stored what was
   * removed, and have said so already: a row that comes after theirs would have the last word.
   */
  #agrees(): boolean {
    const stored = [...split(this.ledger.pending_stored())];
    const removed = [...split(this.ledger.pending_removed())];
    const texts = new Set(stored.map(textOf));
    // Of what is in both lists the order decides, which is this tab's own.
    const both = new Set(removed.map(textOf).filter((text) => texts.has(text)));
    const agrees = (name: Uint8Array, isThere: boolean): boolean =>
      both.has(textOf(name)) || (this.#directory.placeOf(name) !== undefined) === isThere;
    return stored.every((name) => agrees(name, true)) && removed.every((name) => agrees(name, false));
  }

  /** Replays the rows that are new. Gives whether all of them could be read. */
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

  /** Replaces all rows by one. What is pending is in it. */
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
   * Does the work of a transaction, all of it or nothing. What was noted on the way to one that failed did
   * not happen: everything is to be read again.
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
