import { type Database, DIRECTORY, ENTRIES } from "./database.js";
import { decodeRow, encodeRow, type Place, type Row } from "./directory-row.js";
import { Fault, insist, result, whole } from "./idb.js";
import { bytesOfText, textOf, writeText } from "./name.js";
import { isPacked, numberAt, placeIn, readPlaces, type Shelf, shelved } from "./pack.js";
import { Places } from "./places.js";

/**
 * Where each entry is. Records are stored under numbers, in the order in which they come: what is stored
 * together lies together on the disk, and is read together. Each transaction that stores entries or removes
 * some appends a row that says so, and every tab replays the rows.
 *
 * Nothing is ever stored twice under a number. So what is found at the place of a name is what was stored
 * last, or is on its way out: whoever replaces an entry removes the older one, also where it learns only
 * afterwards that there was one. And a name that is not known, or whose place is empty, is looked for again
 * once the new rows are replayed. When an entry of a pack goes, the others get other records.
 */
export class Directory {
  #places = new Places();
  /** The number of the last row that was replayed. */
  #seen = 0;
  /** How many rows there are since the last one that says everything anew. */
  #rows = 0;
  /** The opening of the database that all this is of. */
  #opening = 0;
  /** Its connection. */
  #connection: IDBDatabase | undefined;
  #claim: Claim = { next: 0, end: 0 };
  /** Names that others have replaced, perhaps without knowing of it, and where they were. */
  #replaced: Place[] = [];
  #isWhole = true;

  /** Where an entry is, as far as this tab knows. */
  placeOf(name: Uint8Array): number | undefined {
    return this.#places.of(textOf(name));
  }

  /** The names of all entries, in the order in which they were stored. */
  names(): Uint8Array<ArrayBuffer>[] {
    return this.#places.texts().map(bytesOfText);
  }

  /** The same, 32 bytes each, in the order of the names. */
  sortedNames(): Uint8Array {
    const joined = new Uint8Array(32 * this.#places.size);
    const sorted = this.#places.texts().sort();
    sorted.forEach((text, at) => writeText(joined, 32 * at, text));
    return joined;
  }

  /** Whether all rows could be read. If not, entries are there that nobody finds. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Whether the rows should become one. */
  get shouldCompact(): boolean {
    return this.#rows > 64 + this.#places.size / 64;
  }

  /** An entry turned out to be gone from its place. */
  forget(name: Uint8Array, place: number | undefined): void {
    const text = textOf(name);
    if (place !== undefined && this.#places.of(text) === place) this.#places.move(text, 0);
  }

  /**
   * Forgets everything if the database was opened anew: it may have been deleted meanwhile. Gives whether it
   * did.
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

  /** Replays the rows that are new, in a transaction of the caller's. Gives whether all was forgotten before. */
  async catchUp(database: Database, transaction: IDBTransaction): Promise<boolean> {
    const isAnew = this.#belong(database, transaction);
    const rows = transaction.objectStore(DIRECTORY);
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const asked = result<unknown[]>(rows.getAll(range));
    // Mostly there is nothing new, and then nobody asks for its numbers.
    const early = this.#seen === 0 ? result(rows.getAllKeys(range)) : undefined;
    const contents = await asked;
    if (contents.length === 0) return isAnew;
    const numbers = await (early ?? result(rows.getAllKeys(range, contents.length)));
    // Rows of a connection that was given up meanwhile would hide those that the new one has not replayed yet.
    if (this.#connection !== transaction.db) throw new Fault("closing");
    contents.forEach((row, at) => this.#apply(numbers[at], decodeRow(row)));
    return isAnew;
  }

  /** The same in a transaction of its own. */
  async refresh(database: Database): Promise<void> {
    await this.catchUp(database, await database.begin(DIRECTORY, "readonly"));
  }

  /**
   * Puts entries into new records. Nothing is waited for but where a row has to be appended for numbers, and
   * where something else has to be removed first. What is put in the order of calls is stored in that order:
   * it is that of the transactions.
   */
  put(
    database: Database,
    transaction: IDBTransaction,
    entries: readonly { name: Uint8Array; record: unknown }[],
  ): Done | Promise<Done> {
    this.#belong(database, transaction);
    // Of two values of a name the last one counts.
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
   * Removes entries, in a transaction that has caught up, and what was replaced and is still there. Where
   * nothing can be written because the database is over its quota, nothing is: then all entries of their
   * packs go, and others find out when they look.
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
   * Removes all entries, in a transaction that has caught up. Without a row, others find out when they look.
   */
  clear(transaction: IDBTransaction, mayWrite: boolean): () => void {
    transaction.objectStore(ENTRIES).clear();
    return mayWrite ? this.rewrite(transaction, []) : () => this.#places.clear();
  }

  /** Replaces all rows by one. */
  async compact(database: Database): Promise<void> {
    await this.tidy(database);
    await this.#whole(database, async (transaction) => {
      // Somebody has added to what has to be tidied first, or to what has to be read.
      if (this.#replaced.length > 0 || !this.#isWhole) return () => {};
      return this.rewrite(transaction, this.#places.all());
    });
  }

  /** Replaces all rows by one that says this. `replaced` is what is still there of older values. */
  rewrite(
    transaction: IDBTransaction,
    places: readonly Place[],
    replaced: readonly Place[] = [],
  ): () => void {
    const rows = transaction.objectStore(DIRECTORY);
    rows.clear();
    const appended = rows.put(encodeRow("anew", places));
    const { db } = transaction;
    return () => {
      if (this.#connection !== db) return;
      this.#isWhole = true;
      this.#apply(appended.result, { kind: "anew", places });
      this.#replaced.push(...replaced);
    };
  }

  /**
   * Removes what was replaced and is still there: by somebody who did not know of it, and may have died
   * since.
   */
  async tidy(database: Database): Promise<void> {
    if (this.#replaced.length === 0) return;
    await this.#whole(database, (transaction) => this.remove(transaction, [], true));
  }

  /** What is left to be done for entries whose row was appended. `seen` is the last row that was known then. */
  #settled(database: Database, { appended, done, db }: Appended, seen: number): Done {
    return async () => {
      if (this.#connection !== db) return;
      if (appended.result === seen + 1) return done();
      // Somebody else has stored something meanwhile. Where it is under the same name, nobody must find it
      // any more.
      const settle = (mayWrite: boolean) => this.#whole(database, (again) => this.remove(again, [], mayWrite));
      // It is stored, whatever comes of this.
      await insist(settle).catch(() => {});
    };
  }

  /** The same where packs are dissolved. What is moved must not be what somebody else has replaced meanwhile. */
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

  /** Puts records under numbers of a claim, and gives where the entries are then. */
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

  /** Removes the records of entries. Gives where the other entries of their packs are then. */
  async #dissolve(transaction: IDBTransaction, gone: readonly Place[], claim: Claim): Promise<Place[]> {
    const store = transaction.objectStore(ENTRIES);
    const others = this.#places.neighbours(gone);
    const found = await readPlaces(store, others.map(([, place]) => place));
    for (const number of new Set(gone.map(([, place]) => numberAt(place)))) store.delete(number);
    const records = new Map<string, unknown>();
    // What is not there was removed behind the back of all caches.
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

  /** Numbers that nobody else has. Those of a new row are this tab's if its transaction is stored. */
  async #claimed(transaction: IDBTransaction, count: number): Promise<Claim> {
    if (this.#hasNumbers(count)) return this.#take(count);
    const row = (await result(transaction.objectStore(DIRECTORY).put(encodeRow("more", [])))) as number;
    return { next: row * CLAIM, end: (row + 1) * CLAIM, row };
  }

  #append(transaction: IDBTransaction, places: readonly Place[], claim: Claim): Appended {
    const rows = transaction.objectStore(DIRECTORY);
    const row = encodeRow("more", places);
    const appended = claim.row === undefined ? rows.put(row) : rows.put(row, claim.row);
    const { db } = transaction;
    const done = (): void => {
      if (this.#connection !== db) return;
      if (claim.row !== undefined) this.#claim = claim;
      this.#apply(appended.result, { kind: "more", places }, true);
    };
    return { appended, done, db };
  }

  /** What was replaced is gone. */
  #dropped(replaced: readonly Place[]): void {
    const gone = new Set(replaced);
    if (gone.size > 0) this.#replaced = this.#replaced.filter((place) => !gone.has(place));
  }

  /** A transaction of a connection that was given up says nothing of the database that is there now. */
  #belong(database: Database, transaction: IDBTransaction): boolean {
    if (!database.isCurrent(transaction)) throw new Fault("closing");
    const isAnew = this.follow(database);
    this.#connection = transaction.db;
    return isAnew;
  }

  /**
   * Catches up and does work in a transaction, all of it or nothing; then what is to be done once it is
   * complete.
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

  /** Replays a row, if it was not replayed already. `isOwn` says that what it replaces is gone. */
  #apply(number: unknown, row: Row | undefined, isOwn = false): void {
    if (typeof number !== "number" || number <= this.#seen) return;
    this.#seen = number;
    this.#rows += 1;
    if (row === undefined) {
      this.#isWhole = false;
      return;
    }
    if (row.kind === "anew") {
      this.#places.clear();
      this.#rows = 1;
      // Whoever says everything anew has removed what was replaced before.
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

/** What is to be done once a transaction is complete. */
export type Done = () => Promise<void>;

/** So many records at most are numbered after one row, and so after each claim of a tab. */
const CLAIM = 2 ** 18;

/** Numbers for records: the next one, and the first that is somebody else's. */
interface Claim {
  next: number;
  end: number;
  /** The row that they are named after, if it is of the transaction that is to use them first. */
  row?: number;
}

/** A row whose number is known once its transaction is complete. */
interface Appended {
  appended: IDBRequest<IDBValidKey>;
  done: () => void;
  db: IDBDatabase;
}
