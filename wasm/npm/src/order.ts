/** A write of a key that is under way. */
export interface Ticket {
  /** What names the key. */
  readonly id: string;
  /** Whether it ends soon, whatever others do: it does not read from a network. */
  finite: boolean;
  /** How it ended: `true` if it was stored. It never rejects. */
  readonly done: Promise<boolean>;
}

/** Keeps the order of the calls for one key, though large values take longer than small ones. */
export class Order {
  readonly #latest = new Map<string, Ticket>();

  /** Runs a write. `work` begins at once. */
  async run(id: string, finite: boolean, work: (ticket: Ticket) => Promise<boolean>): Promise<boolean> {
    let finish!: (stored: boolean) => void;
    const done = new Promise<boolean>((resolve) => (finish = resolve));
    const ticket: Ticket = { id, finite, done };
    this.#latest.set(id, ticket);
    let stored = false;
    try {
      stored = await work(ticket);
      return stored;
    } finally {
      if (this.#latest.get(id) === ticket) this.#latest.delete(id);
      finish(stored);
    }
  }

  /**
   * What came of the write or removal that was called after this one; `undefined` if this one is the latest.
   */
  successor({ id, done }: Ticket): Promise<boolean> | undefined {
    const latest = this.#latest.get(id);
    if (latest?.done === done) return undefined;
    return latest?.done ?? Promise.resolve(false);
  }

  /** The write of this key that a read has to wait for, if there is one. */
  pending(id: string): Promise<boolean> | undefined {
    const ticket = this.#latest.get(id);
    return ticket?.finite ? ticket.done : undefined;
  }

  /** Waits for what ends soon. */
  async drained(): Promise<void> {
    const finite = [...this.#latest.values()].filter((ticket) => ticket.finite);
    await Promise.all(finite.map(({ done }) => done));
  }

  /** What is still being read for `id`, or for any key, is not stored any more. */
  supersede(id?: string): void {
    if (id === undefined) this.#latest.clear();
    else this.#latest.delete(id);
  }
}
