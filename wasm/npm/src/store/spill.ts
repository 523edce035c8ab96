import { Fault } from "./idb.js";
import { Records, type Stored } from "./record.js";
import type { Store } from "./store.js";
import { store } from "./write.js";

/** When it is tried again, in milliseconds: Chromium gives the room of what went back after seconds. */
const LATER = [5_000, 10_000, 20_000, 40_000];

/** What a database had no space for, and memory keeps meanwhile. It is stored once there is. */
export class Spill {
  #store: Store;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #opened: Records | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Stores it later, and still later if there is no space then. */
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

  /** What was made last: what memory keeps under a name, or what is stored there, perhaps by another tab. */
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
      // Another tab has stored something newer since, or somebody here has put something newer.
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
