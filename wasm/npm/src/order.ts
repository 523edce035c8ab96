/** A write or a removal of a key that is under way. */
export interface Ticket {
  /** What names the key. */
  readonly id: string;
  /** Whether it ends soon, whatever others do: it does not read from a network. */
  finite: boolean;
  /** A removal that was called before, and has to be done before this one stores anything. */
  readonly after: Promise<unknown> | undefined;
  /** How it ended: `true` if it did something. It never rejects. */
  readonly done: Promise<boolean>;
}

/** What a call does to its key. */
export type Kind = "write" | "remove";

/** Keeps the order of the calls for one key, though large values take longer than small ones. */
export class Order {
  readonly #latest = new Map<string, { ticket: Ticket; kind: Kind }>();
  #clearing: Promise<unknown> | undefined;

  /** Runs a call. `work` begins at once. */
  async run(
    id: string,
    kind: Kind,
    finite: boolean,
    work: (ticket: Ticket) => Promise<boolean>,
  ): Promise<boolean> {
    let finish!: (did: boolean) => void;
    const done = new Promise<boolean>((resolve) => (finish = resolve));
    const before = this.#latest.get(id);
    const after = before?.kind === "remove" ? before.ticket.done : this.#clearing;
    const ticket: Ticket = { id, finite, after, done };
    this.#latest.set(id, { ticket, kind });
    let did = false;
    try {
      did = await work(ticket);
      return did;
    } finally {
      if (this.#latest.get(id)?.ticket === ticket) this.#latest.delete(id);
      finish(did);
    }
  }

  /**
   * Removes everything, after what ends soon. What is still being read from elsewhere is not stored any more.
   */
  async clear(work: () => Promise<void>): Promise<void> {
    const drained = this.drained();
    this.#latest.clear();
    const cleared = drained.then(work);
    const clearing = cleared.catch(() => undefined);
    this.#clearing = clearing;
    await cleared.finally(() => {
      if (this.#clearing === clearing) this.#clearing = undefined;
    });
  }

  /** Whether another call for this key was made after this one. */
  isSuperseded({ id, done }: Ticket): boolean {
    return this.#latest.get(id)?.ticket.done !== done;
  }

  /** What came of the latest write of this key. */
  async outcome(id: string): Promise<boolean> {
    const latest = this.#latest.get(id);
    return latest?.kind === "write" && (await latest.ticket.done);
  }

  /** What a read of this key has to wait for, if there is anything. */
  pending(id: string): Promise<unknown> | undefined {
    const latest = this.#latest.get(id)?.ticket;
    return latest?.finite ? latest.done : this.#clearing;
  }

  /** Waits for what ends soon. */
  async drained(): Promise<void> {
    const tickets = [...this.#latest.values()].map(({ ticket }) => ticket);
    await Promise.all([this.#clearing, ...tickets.filter(({ finite }) => finite).map(({ done }) => done)]);
  }
}
