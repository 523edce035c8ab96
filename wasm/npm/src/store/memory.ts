import type { Engine } from "../engine.js";
import { split, textOf } from "./name.js";
import type { Entry, Stored } from "./record.js";

/**
 * Records in memory: all of them where there is no database, and those that the database had no space for.
 */
export class Memory {
  #records = new Map<string, Stored>();
  #ledger: InstanceType<Engine["Ledger"]>;

  constructor(engine: Engine, maxBytes?: number, maxEntries?: number) {
    this.#ledger = new engine.Ledger(maxBytes, maxEntries);
  }

  get entries(): number {
    return this.#records.size;
  }

  get bytes(): number {
    return this.#ledger.bytes;
  }

  get(name: Uint8Array): Stored | undefined {
    return this.#records.size === 0 ? undefined : this.#records.get(textOf(name));
  }

  /** Keeps an entry if it fits. Returns how many entries it evicted. */
  put(entry: Entry, now: number): number {
    if (!this.#ledger.admits(entry.size)) {
      // The older value of the key must not outlive the newer one.
      this.remove(entry.name);
      return 0;
    }
    this.#records.set(textOf(entry.name), entry.record);
    this.#ledger.stored(entry.name, entry.size, now);
    return this.#shrink();
  }

  used(name: Uint8Array, now: number): void {
    this.#ledger.used(name, now);
    this.#ledger.forget_pending();
  }

  remove(name: Uint8Array): boolean {
    if (this.#records.size === 0 || !this.#records.delete(textOf(name))) return false;
    this.#ledger.removed(name, 0);
    this.#ledger.forget_pending();
    return true;
  }

  clear(): void {
    this.#records.clear();
    this.#ledger.reset();
  }

  /** Sets the limits. Returns how many records were evicted. */
  setLimits(maxBytes?: number, maxEntries?: number): number {
    this.#ledger.set_limits(maxBytes, maxEntries);
    return this.#shrink();
  }

  /** Lists every record with the time of its last use, the least recently used first. */
  *all(): Generator<{ name: Uint8Array<ArrayBuffer>; record: Stored; usedMs: number }> {
    const uses = this.#ledger.uses();
    let at = 0;
    for (const name of split(this.#ledger.names())) {
      const record = this.#records.get(textOf(name));
      if (record !== undefined) yield { name, record, usedMs: uses[at] ?? 0 };
      at += 1;
    }
  }

  #shrink(): number {
    let evicted = 0;
    while (this.#ledger.exceeds) {
      const oldest = this.#ledger.oldest();
      if (oldest === undefined) break;
      this.#records.delete(textOf(oldest));
      this.#ledger.removed(oldest, 0);
      evicted += 1;
    }
    // There is no journal here.
    this.#ledger.forget_pending();
    return evicted;
  }
}
