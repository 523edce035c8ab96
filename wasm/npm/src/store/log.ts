import { Accounts, type Change, isRow, isSnapshot } from "./accounts.js";
import { LOG, result, VALUES } from "./database.js";
import { isDamage, largeOf, opened, storedSize } from "./record.js";

/** Reads and appends the rows of the log, and adds them up to accounts. */
export class Log {
  readonly accounts = new Accounts();
  /** The number of the last row that is in the accounts. */
  #seen = 0;
  /** How many rows there are, as far as this tab has seen them. */
  #rows = 0;

  /** Forgets the accounts. The next transaction that needs them reads all rows. */
  forget(): void {
    this.accounts.clear();
    this.#seen = 0;
    this.#rows = 0;
  }

  /** Adds the rows of other tabs to the accounts, in a transaction of the caller's. */
  async catchUp(transaction: IDBTransaction): Promise<void> {
    const log = transaction.objectStore(LOG);
    const range = IDBKeyRange.lowerBound(this.#seen, true);
    const [rows, numbers] = await Promise.all([result<unknown[]>(log.getAll(range)), result(log.getAllKeys(range))]);
    let isWhole = true;
    rows.forEach((row, at) => {
      const number = numbers[at] as number;
      if (!isRow(row) || !(isSnapshot(row) || number === this.#seen + 1)) isWhole = false;
      this.#seen = number;
      this.#rows = isRow(row) && isSnapshot(row) ? 1 : this.#rows + 1;
      if (isRow(row)) this.accounts.apply(row);
    });
    // Without any row, there must be no entry.
    if (this.#seen === 0) isWhole = (await result(transaction.objectStore(VALUES).count())) === 0;
    if (!isWhole) await this.#rebuild(transaction);
  }

  /**
   * Requests a row with these changes. In a transaction that has caught up, the accounts have them already, and a
   * snapshot takes the place of too many rows. The returned function is to be called when the transaction is committed,
   * and returns the number of the row. Without changes there may be no row.
   */
  append(transaction: IDBTransaction, changes: readonly Change[], hasCaughtUp: boolean): (() => number) | undefined {
    const log = transaction.objectStore(LOG);
    const isRewritten = hasCaughtUp && this.#rows > 64 + this.accounts.entries.size / 8;
    if (isRewritten) log.clear();
    else if (changes.length === 0) return undefined;
    const row = log.put(isRewritten ? this.accounts.snapshot() : changes);
    return () => {
      const number = row.result as number;
      // If it is not the next one, rows of other tabs come before it, and are read first.
      const isNext = hasCaughtUp || number === this.#seen + 1;
      if (isNext && !hasCaughtUp) this.accounts.apply(changes);
      if (isNext) this.#seen = number;
      if (isNext) this.#rows = isRewritten ? 1 : this.#rows + 1;
      return number;
    };
  }

  /** Brings accounts whose rows are lost or unreadable in line with the records, and removes damaged ones. */
  async #rebuild(transaction: IDBTransaction): Promise<void> {
    const { accounts } = this;
    // Until a snapshot is committed, each transaction reads all rows again: this one may fail.
    this.#seen = 0;
    const values = transaction.objectStore(VALUES);
    const ids = (await result(values.getAllKeys())).filter((key) => typeof key === "string");
    const there = new Set(ids);
    for (const id of [...accounts.entries.keys()]) if (!there.has(id)) accounts.apply([[id]]);
    // Entries with accounts keep their order. They are read too, because the lost row may have replaced one of them.
    for (const id of new Set([...accounts.entries.keys(), ...ids])) {
      const record = await result<unknown>(values.get(id));
      const found = opened(record, id);
      if (typeof found === "string" && isDamage(found)) {
        values.delete(id);
        accounts.apply([[id]]);
        continue;
      }
      // An entry of a newer version counts with the size that this version can see.
      const sinceMs = typeof found === "string" ? Date.now() : found.head.createdMs;
      accounts.apply([[id, accounts.entries.get(id)?.usedMs ?? sinceMs, storedSize(record), largeOf(record)]]);
    }
    // Now {@link append} replaces all rows by a snapshot.
    this.#rows = Infinity;
  }
}
