import { Fault } from "./idb.js";
import { Records, type Stored } from "./record.js";
import type { Store } from "./store.js";
import { store } from "./write.js";

/** The delay before a retry, in milliseconds: Chromium frees the space of removed records after seconds. */
const LATER = [5_000, 10_000, 20_000, 40_000];

/** Entries that exceeded the quota. Memory keeps them until the database has space. */
export class Spill {
  #store: Store;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #opened: Records | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Schedules storing the entry, and retries while there is no space. */
  tryLater(attempt = 0): void {
    if (this.#timer !== undefined || attempt >= LATER.length) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#storeAll().catch((error: unknown) => {
        this.#store.trouble(error);
        this.tryLater(attempt + 1);
      });
    }, LATER[attempt]);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Returns the newer of the record in memory and the stored one, which may be another tab's. */
  newerOf(kept: Stored, stored: Stored | undefined | Fault, name: Uint8Array<ArrayBuffer>): Stored {
    if (stored === undefined || stored instanceof Fault) return kept;
    return (this.#madeMs(stored, name) ?? 0) > (this.#madeMs(kept, name) ?? 0) ? stored : kept;
  }

  async #storeAll(): Promise<void> {
    const { memory } = this.#store;
    const records = this.#records();
    for (const { name, record, usedMs } of [...memory.all()]) {
      const { database, directory, journal, isClosed } = this.#store;
      if (database === undefined || journal === undefined || isClosed) return;
      const [newest] = await this.#store.records([name], (found) => found);
      // Another tab has stored, or this one has put, a newer value since.
      if (newest !== record) {
        if (memory.get(name) === record) memory.remove(name);
        continue;
      }
      if (records.under(record, name) !== undefined) continue;
      const [size, payload, metadata] = [records.size(), records.payload(), records.metadata()];
      const place = directory.placeOf(name);
      const isStill = (): boolean => directory.placeOf(name) === place && memory.get(name) === record;
      await store(database, directory, journal, [{ name, record, metadata, size, payload }], isStill);
      if (memory.get(name) !== record) continue;
      memory.remove(name);
      journal.ledger.stored(name, size, usedMs);
      await journal.keepLimits();
      journal.flushSoon();
    }
  }

  #madeMs(record: Stored, name: Uint8Array<ArrayBuffer>): number | undefined {
    const records = this.#records();
    return records.under(record, name) === undefined ? records.about().createdMs : undefined;
  }

  #records(): Records {
    return (this.#opened ??= new Records(this.#store.engine));
  }
}
