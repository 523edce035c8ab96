/** Batches calls into one transaction. */
interface Waiting<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
}

/**
 * Runs a batch of calls; the results are in the order of the items. Results that are known early can be
 * delivered before the others.
 */
export type Run<Item, Answer> = (
  items: Item[],
  tell: (answer: Answer, at: number) => void,
) => Promise<Answer[]>;

/** Options of a {@link Batch}. */
export interface BatchOptions<Item, Answer> {
  /** The result of each call if the whole batch fails. */
  failed: Answer;
  /** Whether a batch waits for the one before it, and collects calls meanwhile. */
  oneAtATime?: boolean;
  /** The bytes of a large item. A batch takes no more of them than Chromium can hold; see values.ts. */
  bytesOf?: (item: Item) => number;
}

/** A larger transaction would delay the ones after it. */
const MOST = 2048;
const MOST_BYTES = 256 * 1024 * 1024;

/** Makes the calls of one tick one call of the store, and so one transaction. */
export class Batch<Item, Answer> {
  #waiting: Waiting<Item, Answer>[] = [];
  #scheduled = false;
  #running = 0;
  readonly #run: Run<Item, Answer>;
  readonly #options: BatchOptions<Item, Answer>;

  constructor(run: Run<Item, Answer>, options: BatchOptions<Item, Answer>) {
    this.#run = run;
    this.#options = options;
  }

  /** Adds a call to the next batch. */
  add(item: Item): Promise<Answer> {
    return new Promise((resolve) => {
      this.#waiting.push({ item, resolve });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    if (this.#options.oneAtATime && this.#running > 0) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.#start();
    });
  }

  /** The number of waiting calls for the next batch: at least one. */
  #count(): number {
    const { bytesOf } = this.#options;
    const most = Math.min(MOST, this.#waiting.length);
    if (!bytesOf) return most;
    let bytes = 0;
    for (let at = 0; at < most; at++) {
      bytes += bytesOf(this.#waiting[at]!.item);
      if (at > 0 && bytes > MOST_BYTES) return at;
    }
    return most;
  }

  async #start(): Promise<void> {
    const batch = this.#waiting.splice(0, this.#count());
    this.#running++;
    if (!this.#options.oneAtATime) this.#schedule();
    let answers: Answer[] = [];
    try {
      answers = await this.#run(
        batch.map(({ item }) => item),
        (answer, at) => batch[at]?.resolve(answer),
      );
    } catch (error) {
      console.error("warmstart: a batch failed", error);
    }
    this.#running--;
    batch.forEach(({ resolve }, at) =>
      resolve(at < answers.length ? (answers[at] as Answer) : this.#options.failed),
    );
    this.#schedule();
  }
}
