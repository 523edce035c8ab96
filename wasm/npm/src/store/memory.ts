import { Accounts, admits, type Limits } from "./accounts.js";
import type { Stored } from "./record.js";

/** Records in memory: all of them without a database, and otherwise those that it could not store. */
export class Memory {
  readonly accounts = new Accounts();
  readonly #records = new Map<string, Stored>();
  #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get(id: string): Stored | undefined {
    return this.#records.get(id);
  }

  /** Keeps an entry if it fits. Returns how many entries it evicted. */
  put(id: string, record: Stored, size: number, now: number): number {
    // The older value of the key must not outlive the newer one.
    this.remove(id);
    if (!admits(this.#limits, size)) return 0;
    this.#records.set(id, record);
    this.accounts.apply([[id, now, size]]);
    return this.setLimits(this.#limits);
  }

  remove(id: string): boolean {
    // Most calls find nothing.
    if (!this.#records.delete(id)) return false;
    this.accounts.apply([[id]]);
    return true;
  }

  clear(): void {
    this.accounts.clear();
    this.#records.clear();
  }

  /** Sets the limits. Returns how many entries were evicted. */
  setLimits(limits: Limits): number {
    this.#limits = limits;
    const before = this.#records.size;
    for (const id of this.accounts.entries.keys()) {
      if (!this.accounts.exceed(limits)) break;
      this.remove(id);
    }
    return before - this.#records.size;
  }
}
