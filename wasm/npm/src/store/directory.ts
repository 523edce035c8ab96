import { type Database, DIRECTORY, ENTRIES } from "./database.js";
import { abort, complete, result } from "./idb.js";
import { bytesOfText, decodeRow, encodeRow, type Place, textOf } from "./directory-row.js";

/** So many entries at most are numbered after one row, and so after each claim of a tab. */
const CLAIM = 2 ** 22;

/** What is to be done once a transaction is complete. */
export type Done = () => Promise<void>;

/**
 * Where each entry is. Entries are stored under numbers, in the order in which they come: what is stored together lies together on
 * the disk, and is read together. Each transaction that stores entries or removes some appends a row that says so, and every tab
 * replays the rows.
 *
 * Nothing is ever stored twice under a number. So what is found under the number of a name is what was stored last, or is on its
 * way out: whoever replaces an entry removes the older one, also where it learns only afterwards that there was one. And a name
 * that is not known, or whose number is empty, is looked for again once the new rows are replayed.
 */
export class Directory {
  #numbers = new Map<string, number>();
  /** The number of the last row that was replayed. */
  #seen = 0;
  /** How many rows there are since the last one that says everything anew. */
  #rows = 0;
  /** The opening of the database that all this is of. */
  #opening = 0;
  /** Numbers that are this tab's: the next one, and the first that is not. */
  #claim = { next: 0, end: 0 };
  /** Numbers whose entries were replaced by somebody who may not have known of them. */
  #replaced: number[] = [];
  #isWhole = true;

  /** The number of an entry, as far as this tab knows. */
  numberOf(name: Uint8Array): number | undefined {
    return this.#numbers.get(textOf(name));
  }

  get size(): number {
    return this.#numbers.size;
  }

  /** The names of all entries, in the order in which they were stored. */
  names(): Uint8Array<ArrayBuffer>[] {
    return [...this.#numbers.keys()].map(bytesOfText);
  }

  /** The same, 32 bytes each, in the order of the names. */
  sortedNames(): Uint8Array {
    const joined = new Uint8Array(32 * this.#numbers.size);
    [...this.#numbers.keys()].sort().forEach((text, at) => joined.set(bytesOfText(text), 32 * at));
    return joined;
  }

  /** Whether all rows could be read. If not, entries are there that nobody finds. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Whether the rows should become one. */
  get shouldCompact(): boolean {
    return this.#rows > 128 + this.#numbers.size / 16;
  }

  /** An entry turned out to be gone from under its number. */
  forget(name: Uint8Array, number: number | undefined): void {
    const text = textOf(name);
    if (number !== undefined && this.#numbers.get(text) === number) this.#numbers.delete(text);
  }

  /** Forgets everything if the database was opened anew: it may have been deleted meanwhile. */
  follow(database: Database): void {
    if (this.#opening === database.openings) return;
    this.#opening = database.openings;
    this.#numbers.clear();
    this.#seen = 0;
    this.#rows = 0;
    this.#claim = { next: 0, end: 0 };
    this.#replaced = [];
    this.#isWhole = true;
  }

  /** Replays the rows that are new, in a transaction of the caller's. */
  async catchUp(database: Database, transaction: IDBTransaction): Promise<void> {
    this.follow(database);
    const rows = transaction.objectStore(DIRECTORY);
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const contents: unknown[] = await result(rows.getAll(range));
    if (contents.length === 0) return;
    const numbers = await result(rows.getAllKeys(range, contents.length));
    contents.forEach((row, at) => this.#replay(numbers[at], row));
  }

  /** The same in a transaction of its own. */
  async refresh(database: Database): Promise<void> {
    await this.catchUp(database, await database.begin(DIRECTORY, "readonly"));
  }

  /**
   * Puts records under new numbers. Nothing is waited for, but by the first call: what is put in the order of calls is stored in
   * that order.
   */
  put(
    database: Database,
    transaction: IDBTransaction,
    entries: readonly { name: Uint8Array; record: unknown }[],
  ): Done | Promise<Done> {
    this.follow(database);
    // Of two values of a name the last one counts.
    const records = new Map(entries.map(({ name, record }) => [textOf(name), record]));
    const { next, end } = this.#claim;
    if (next + records.size > end) return this.#putFirst(database, transaction, records);
    this.#claim.next += records.size;
    return this.#put(database, transaction, records, next);
  }

  /**
   * Removes entries in a transaction that has caught up. A database that is over its quota lets entries go, but takes no row to say
   * so: without it, others find out when they look.
   */
  remove(transaction: IDBTransaction, names: readonly Uint8Array[], withRow: boolean): () => void {
    const store = transaction.objectStore(ENTRIES);
    const gone = names.map(textOf).filter((text) => this.#numbers.has(text));
    for (const text of gone) store.delete(this.#numbers.get(text)!);
    if (gone.length === 0) return () => {};
    const row = encodeRow("more", gone.map((text) => [text, 0]));
    const appended = withRow ? transaction.objectStore(DIRECTORY).put(row) : undefined;
    return () => {
      if (appended !== undefined) this.#replay(appended.result, row, true);
      else for (const text of gone) this.#numbers.delete(text);
    };
  }

  /** Removes all entries, in a transaction that has caught up. Without a row, others find out when they look. */
  clear(transaction: IDBTransaction, withRow: boolean): () => void {
    transaction.objectStore(ENTRIES).clear();
    return withRow ? this.rewrite(transaction, []) : () => this.#numbers.clear();
  }

  /** Replaces all rows by one, in a transaction that has caught up. */
  compact(transaction: IDBTransaction): () => void {
    this.#dropReplaced(transaction);
    return this.rewrite(transaction, [...this.#numbers]);
  }

  /** Replaces all rows by one that says this. */
  rewrite(transaction: IDBTransaction, places: Place[]): () => void {
    const row = encodeRow("anew", places);
    const rows = transaction.objectStore(DIRECTORY);
    rows.clear();
    const appended = rows.put(row);
    return () => {
      this.#isWhole = true;
      this.#replay(appended.result, row);
    };
  }

  /** Removes what was replaced by somebody who died before that was removed. */
  async tidy(database: Database): Promise<void> {
    if (this.#replaced.length === 0) return;
    const transaction = await database.begin(ENTRIES, "readwrite");
    this.#dropReplaced(transaction);
    await complete(transaction);
  }

  #put(
    database: Database,
    transaction: IDBTransaction,
    records: ReadonlyMap<string, unknown>,
    first: number,
    rowNumber?: IDBValidKey,
  ): Done {
    const rows = transaction.objectStore(DIRECTORY);
    const store = transaction.objectStore(ENTRIES);
    const opening = this.#opening;
    const unseen = rows.getKey(IDBKeyRange.bound(this.#seen, rowNumber ?? Infinity, true, true));
    const places: Place[] = [];
    for (const [text, record] of records) {
      const older = this.#numbers.get(text);
      if (older !== undefined) store.delete(older);
      places.push([text, first + places.length]);
      store.put(record, first + places.length - 1);
    }
    const row = encodeRow("more", places);
    const appended = rowNumber === undefined ? rows.put(row) : rows.put(row, rowNumber);
    return async () => {
      if (this.#opening !== opening) return;
      if (unseen.result === undefined) this.#replay(appended.result, row, true);
      // Somebody else has stored something meanwhile. Where it is under the same name, nobody must find it any more.
      else await this.#settle(database);
    };
  }

  /** The number of a row becomes that of the entries behind it. Others cannot have the same one, if it is stored. */
  async #putFirst(
    database: Database,
    transaction: IDBTransaction,
    records: ReadonlyMap<string, unknown>,
  ): Promise<Done> {
    const rowNumber = await result(transaction.objectStore(DIRECTORY).put(encodeRow("more", [])));
    const first = (rowNumber as number) * CLAIM;
    const opening = this.#opening;
    const done = this.#put(database, transaction, records, first, rowNumber);
    return () => {
      if (this.#opening === opening) this.#claim = { next: first + records.size, end: first + CLAIM };
      return done();
    };
  }

  async #settle(database: Database): Promise<void> {
    const attempt = async () => {
      const transaction = await database.begin([ENTRIES, DIRECTORY], "readwrite");
      try {
        await this.catchUp(database, transaction);
        this.#dropReplaced(transaction);
      } catch (error) {
        abort(transaction);
        throw error;
      }
      await complete(transaction);
    };
    // It is stored, whatever comes of this.
    await attempt().catch(attempt).catch(() => {});
  }

  #dropReplaced(transaction: IDBTransaction): void {
    const store = transaction.objectStore(ENTRIES);
    const dropped = this.#replaced;
    this.#replaced = [];
    for (const number of dropped) store.delete(number);
    transaction.addEventListener("abort", () => this.#replaced.push(...dropped));
  }

  /** Replays a row, if it was not replayed already. `isOwn` says that what it replaces is gone. */
  #replay(number: unknown, row: unknown, isOwn = false): void {
    if (typeof number !== "number" || number <= this.#seen) return;
    this.#seen = number;
    this.#rows += 1;
    const decoded = decodeRow(row);
    if (decoded === undefined) {
      this.#isWhole = false;
      return;
    }
    if (decoded.kind === "anew") {
      this.#numbers.clear();
      this.#rows = 1;
    }
    for (const [text, place] of decoded.places) {
      const older = this.#numbers.get(text);
      if (older === place) continue;
      if (older !== undefined && place > 0 && !isOwn) this.#replaced.push(older);
      // What is stored last comes last.
      this.#numbers.delete(text);
      if (place > 0) this.#numbers.set(text, place);
    }
  }
}
