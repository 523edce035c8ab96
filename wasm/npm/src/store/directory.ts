import { type Database, DIRECTORY, ENTRIES } from "./database.js";
import { decodeRow, encodeRow, type Place, type Row } from "./directory-row.js";
import { Fault, insist, result, whole } from "./idb.js";
import { bytesOfText, textOf, writeText } from "./name.js";
import { isPacked, numberAt, placeIn, readPlaces, type Shelf, shelved } from "./pack.js";
import { Places } from "./places.js";

/**
 * Maps names to the places of entries. Records are stored under ascending numbers, so that entries stored
 * together are adjacent on the disk and are read together. Each transaction that stores or removes entries
 * appends a row about them, and every tab replays the rows.
 *
 * A number is never reused. So the record at the place of a name is the newest one, or is about to be removed:
 * a tab that replaces an entry removes the older record, even if it learns of it only afterwards. A look-up of
 * a name that is unknown, or whose place is empty, replays the new rows and tries again. When an entry of a pack
 * is removed, the others move to other records.
 */
export class Directory {
  #places = new Places();
  /** The number of the last row that was replayed. */
  #seen = 0;
  /** The number of rows since the last snapshot, including it. */
  #rows = 0;
  /** The opening of the database that this state belongs to. */
  #opening = 0;
  /** Its connection. */
  #connection: IDBDatabase | undefined;
  #claim: Claim = { next: 0, end: 0 };
  /** Names that other tabs have replaced, perhaps unknowingly, with their old places. */
  #replaced: Place[] = [];
  #isWhole = true;

  /** Returns the place of an entry, as far as this tab knows. */
  placeOf(name: Uint8Array): number | undefined {
    return this.#places.of(textOf(name));
  }

  /** Returns the names of all entries in the order of storing. */
  names(): Uint8Array<ArrayBuffer>[] {
    return this.#places.texts().map(bytesOfText);
  }

  /** Returns the names of all entries, sorted, 32 bytes each. */
  sortedNames(): Uint8Array {
    const joined = new Uint8Array(32 * this.#places.size);
    const sorted = this.#places.texts().sort();
    sorted.forEach((text, at) => writeText(joined, 32 * at, text));
    return joined;
  }

  /** Whether all rows could be read. If not, the database has entries that no look-up finds. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Whether one row should replace the rows. */
  get shouldCompact(): boolean {
    return this.#rows > 64 + this.#places.size / 64;
  }

  /** Forgets an entry whose record is missing. */
  forget(name: Uint8Array, place: number | undefined): void {
    const text = textOf(name);
    if (place !== undefined && this.#places.of(text) === place) this.#places.move(text, 0);
  }

  /**
   * Forgets everything if the database was reopened, because it may have been deleted meanwhile. Returns
   * whether it did.
   */
  follow(database: Database): boolean {
    if (this.#opening === database.openings) return false;
    this.#opening = database.openings;
    this.#connection = undefined;
    this.#places.clear();
    this.#seen = 0;
    this.#rows = 0;
    this.#claim = { next: 0, end: 0 };
    this.#replaced = [];
    this.#isWhole = true;
    return true;
  }

  /** Replays new rows in the caller's transaction. Returns whether it forgot everything before. */
  async catchUp(database: Database, transaction: IDBTransaction): Promise<boolean> {
    const isAnew = this.#belong(database, transaction);
    const rows = transaction.objectStore(DIRECTORY);
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const asked = result<unknown[]>(rows.getAll(range));
    // Mostly there are no new rows, and then their numbers are not needed.
    const early = this.#seen === 0 ? result(rows.getAllKeys(range)) : undefined;
    const contents = await asked;
    if (contents.length === 0) return isAnew;
    const numbers = await (early ?? result(rows.getAllKeys(range, contents.length)));
    // Rows of an abandoned connection would hide those that the new one has not replayed yet.
    if (this.#connection !== transaction.db) throw new Fault("closing");
    contents.forEach((row, at) => this.#apply(numbers[at], decodeRow(row)));
    return isAnew;
  }

  /** Replays new rows in a transaction of its own. */
  async refresh(database: Database): Promise<void> {
    await this.catchUp(database, await database.begin(DIRECTORY, "readonly"));
  }

  /**
   * Puts entries into new records. Waits only to append a row that claims numbers, or to remove other entries
   * first. Calls are stored in their order, which is that of the transactions.
   */
  put(
    database: Database,
    transaction: IDBTransaction,
    entries: readonly { name: Uint8Array; record: unknown }[],
  ): Done | Promise<Done> {
    this.#belong(database, transaction);
    // Of two values of a name, the last one wins.
    const records = new Map(entries.map(({ name, record }) => [textOf(name), record]));
    const shelves = shelved(records);
    const older = this.#places.known(records.keys());
    const isPlain = this.#replaced.length === 0 && !older.some(([, place]) => isPacked(place));
    if (!isPlain || !this.#hasNumbers(shelves.length)) {
      return this.#putSlowly(database, transaction, shelves);
    }
    const store = transaction.objectStore(ENTRIES);
    for (const [, place] of older) store.delete(place);
    const claim = this.#take(shelves.length);
    const places = this.#shelve(transaction, shelves, claim);
    return this.#settled(database, this.#append(transaction, places, claim), this.#seen);
  }

  /**
   * Removes entries, and records that were replaced but not removed, in a transaction that has caught up. If the
   * database is over its quota, it writes nothing: then all entries of their packs are removed, and other tabs
   * find out at a look-up.
   */
  async remove(
    transaction: IDBTransaction,
    names: readonly Uint8Array[],
    mayWrite: boolean,
  ): Promise<() => void> {
    const wanted = this.#places.known(names.map(textOf));
    const replaced = [...this.#replaced];
    const gone = [...wanted, ...replaced];
    if (gone.length === 0) return () => {};
    if (!mayWrite) {
      const numbers = new Set(gone.map(([, place]) => numberAt(place)));
      for (const number of numbers) transaction.objectStore(ENTRIES).delete(number);
      const lost = [...wanted, ...this.#places.neighbours(gone)];
      return () => {
        lost.forEach(([text]) => this.#places.move(text, 0));
        this.#dropped(replaced);
      };
    }
    const claim = await this.#claimed(transaction, this.#places.neighbours(gone).length);
    const moved = await this.#dissolve(transaction, gone, claim);
    const places: Place[] = [...wanted.map(([text]): Place => [text, 0]), ...moved];
    const hasRow = places.length > 0 || claim.row !== undefined;
    const done = hasRow ? this.#append(transaction, places, claim).done : () => {};
    return () => {
      this.#dropped(replaced);
      done();
    };
  }

  /**
   * Removes all entries, in a transaction that has caught up. Without a row, other tabs find out at a look-up.
   */
  clear(transaction: IDBTransaction, mayWrite: boolean): () => void {
    transaction.objectStore(ENTRIES).clear();
    return mayWrite ? this.rewrite(transaction, []) : () => this.#places.clear();
  }

  /** Replaces all rows by a snapshot. */
  async compact(database: Database): Promise<void> {
    await this.tidy(database);
    await this.#whole(database, async (transaction) => {
      // Another tab has added rows that must be tidied or read first.
      if (this.#replaced.length > 0 || !this.#isWhole) return () => {};
      return this.rewrite(transaction, this.#places.all());
    });
  }

  /** Replaces all rows by a snapshot of `places`. `replaced` are the remaining records of older values. */
  rewrite(
    transaction: IDBTransaction,
    places: readonly Place[],
    replaced: readonly Place[] = [],
  ): () => void {
    const rows = transaction.objectStore(DIRECTORY);
    rows.clear();
    const appended = rows.put(encodeRow("snapshot", places));
    const { db } = transaction;
    return () => {
      if (this.#connection !== db) return;
      this.#isWhole = true;
      this.#apply(appended.result, { kind: "snapshot", places });
      this.#replaced.push(...replaced);
    };
  }

  /**
   * Removes records that were replaced but not removed, by a tab that did not know of them and may have died
   * since.
   */
  async tidy(database: Database): Promise<void> {
    if (this.#replaced.length === 0) return;
    await this.#whole(database, (transaction) => this.remove(transaction, [], true));
  }

  /** Finishes a put whose row was appended. `seen` is the last row that was known then. */
  #settled(database: Database, { appended, done, db }: Appended, seen: number): Done {
    return async () => {
      if (this.#connection !== db) return;
      if (appended.result === seen + 1) return done();
      // Another tab has stored entries meanwhile. If one has the same name, its record must go.
      const settle = (mayWrite: boolean) => this.#whole(database, (again) => this.remove(again, [], mayWrite));
      // The put succeeds, even if this fails.
      await insist(settle).catch(() => {});
    };
  }

  /** Does the same when packs are dissolved. An entry that another tab has replaced must not be moved. */
  async #putSlowly(
    database: Database,
    transaction: IDBTransaction,
    shelves: readonly Shelf[],
  ): Promise<Done> {
    await this.catchUp(database, transaction);
    const seen = this.#seen;
    const replaced = [...this.#replaced];
    const gone = [...this.#places.known(shelves.flatMap(({ texts }) => texts)), ...replaced];
    const claim = await this.#claimed(transaction, shelves.length + this.#places.neighbours(gone).length);
    const moved = await this.#dissolve(transaction, gone, claim);
    const places = [...moved, ...this.#shelve(transaction, shelves, claim)];
    const done = this.#settled(database, this.#append(transaction, places, claim), seen);
    return () => {
      this.#dropped(replaced);
      return done();
    };
  }

  /** Puts records under numbers of a claim. Returns the places of their entries. */
  #shelve(transaction: IDBTransaction, shelves: readonly Shelf[], claim: Claim): Place[] {
    const store = transaction.objectStore(ENTRIES);
    const places: Place[] = [];
    for (const { texts, record, isPack } of shelves) {
      const number = claim.next;
      claim.next += 1;
      store.put(record, number);
      texts.forEach((text, at) => places.push([text, isPack ? placeIn(number, at + 1) : number]));
    }
    return places;
  }

  /** Removes the records of entries. Returns the new places of the other entries of their packs. */
  async #dissolve(transaction: IDBTransaction, gone: readonly Place[], claim: Claim): Promise<Place[]> {
    const store = transaction.objectStore(ENTRIES);
    const others = this.#places.neighbours(gone);
    const found = await readPlaces(store, others.map(([, place]) => place));
    for (const number of new Set(gone.map(([, place]) => numberAt(place)))) store.delete(number);
    const records = new Map<string, unknown>();
    // Other code removed the missing records.
    others.forEach(([text], at) => found[at] !== undefined && records.set(text, found[at]));
    return this.#shelve(transaction, shelved(records), claim);
  }

  #hasNumbers(count: number): boolean {
    return this.#claim.next + count <= this.#claim.end;
  }

  #take(count: number): Claim {
    const { next } = this.#claim;
    this.#claim.next += count;
    return { next, end: next + count };
  }

  /** Claims unused numbers. Those of a new row belong to this tab once its transaction is committed. */
  async #claimed(transaction: IDBTransaction, count: number): Promise<Claim> {
    if (this.#hasNumbers(count)) return this.#take(count);
    const row = (await result(transaction.objectStore(DIRECTORY).put(encodeRow("delta", [])))) as number;
    return { next: row * CLAIM, end: (row + 1) * CLAIM, row };
  }

  #append(transaction: IDBTransaction, places: readonly Place[], claim: Claim): Appended {
    const rows = transaction.objectStore(DIRECTORY);
    const row = encodeRow("delta", places);
    const appended = claim.row === undefined ? rows.put(row) : rows.put(row, claim.row);
    const { db } = transaction;
    const done = (): void => {
      if (this.#connection !== db) return;
      if (claim.row !== undefined) this.#claim = claim;
      this.#apply(appended.result, { kind: "delta", places }, true);
    };
    return { appended, done, db };
  }

  /** Forgets replaced records that were removed. */
  #dropped(replaced: readonly Place[]): void {
    const gone = new Set(replaced);
    if (gone.size > 0) this.#replaced = this.#replaced.filter((place) => !gone.has(place));
  }

  /** Adopts a transaction's connection, or throws if it was abandoned. Returns whether it forgot everything. */
  #belong(database: Database, transaction: IDBTransaction): boolean {
    if (!database.isCurrent(transaction)) throw new Fault("closing");
    const isAnew = this.follow(database);
    this.#connection = transaction.db;
    return isAnew;
  }

  /**
   * Catches up and does work in a transaction, completely or not at all; then runs the returned function.
   */
  async #whole(
    database: Database,
    work: (transaction: IDBTransaction) => Promise<() => void>,
  ): Promise<void> {
    const transaction = await database.begin([ENTRIES, DIRECTORY], "readwrite");
    const done = await whole(transaction, async () => {
      await this.catchUp(database, transaction);
      return work(transaction);
    });
    done();
  }

  /** Replays a row, unless it was replayed. `isOwn` means that the replaced records are removed. */
  #apply(number: unknown, row: Row | undefined, isOwn = false): void {
    if (typeof number !== "number" || number <= this.#seen) return;
    this.#seen = number;
    this.#rows += 1;
    if (row === undefined) {
      this.#isWhole = false;
      return;
    }
    if (row.kind === "snapshot") {
      this.#places.clear();
      this.#rows = 1;
      // The writer of a snapshot has removed the records that were replaced before.
      this.#replaced = [];
    }
    for (const [text, place] of row.places) {
      const older = this.#places.of(text);
      if (older === place) continue;
      if (older !== undefined && place > 0 && !isOwn) this.#replaced.push([text, older]);
      this.#places.move(text, place);
    }
  }
}

/** A function to run once a transaction is complete. */
export type Done = () => Promise<void>;

/** The most records that are numbered after one row, and so after each claim of a tab. */
const CLAIM = 2 ** 18;

/** A range of numbers for records: the next one, and the end of the range. */
interface Claim {
  next: number;
  end: number;
  /** The row that defines the range, if the transaction that uses it first appended that row. */
  row?: number;
}

/** A row whose number is known once its transaction is complete. */
interface Appended {
  appended: IDBRequest<IDBValidKey>;
  done: () => void;
  db: IDBDatabase;
}
