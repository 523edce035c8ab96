/** Calls that are answered together. */
interface Waiting<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
}

/**
 * Answers many calls at once; the answers are in the order of the items. Those that are known early can be
 * told before.
 */
export type Run<Item, Answer> = (
  items: Item[],
  tell: (answer: Answer, at: number) => void,
) => Promise<Answer[]>;

/** How a batch works. */
export interface BatchOptions<Item, Answer> {
  /** What each call is answered if the whole batch fails. */
  failed: Answer;
  /** Whether a batch waits until the one before it is done, and takes in what arrives meanwhile. */
  oneAtATime?: boolean;
  /** The bytes of a large item. A batch takes no more of them than Chromium can hold; see values.ts. */
  bytesOf?: (item: Item) => number;
}

/** One transaction with more than this holds up what comes after it. */
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

  /** How many of those that wait go into the next batch: one at least. */
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
