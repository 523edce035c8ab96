/** What a call does to its key. */
export type Kind = "write" | "remove";

/** A write or a removal of a key that is under way. */
export class Ticket {
  /** What names the key. */
  readonly id: string;
  readonly kind: Kind;
  /** Whether it ends soon, whatever others do: it does not read from a network. */
  finite: boolean;
  /** A removal that was called before, and has to be done before this one stores anything. */
  readonly after: Promise<unknown> | undefined;
  /** How it ended: `true` if it did something. It never rejects. */
  readonly done: Promise<boolean>;
  /** The call for the same key that came next, or `"clear"`. */
  next: Ticket | "clear" | undefined;
  /** Ends it. */
  readonly finish: (did: boolean) => void;

  constructor(id: string, kind: Kind, finite: boolean, after: Promise<unknown> | undefined) {
    this.id = id;
    this.kind = kind;
    this.finite = finite;
    this.after = after;
    let finish!: (did: boolean) => void;
    this.done = new Promise((resolve) => (finish = resolve));
    this.finish = finish;
  }

  /** What came of the write that took this one's place; `false` if the key was removed since. */
  async outcome(): Promise<boolean> {
    if (this.next === "clear") return false;
    if (this.next) return this.next.outcome();
    return this.kind === "write" && (await this.done);
  }
}

/** Keeps the order of the calls for one key, though large values take longer than small ones. */
export class Order {
  readonly #latest = new Map<string, Ticket>();
  #clearing: Promise<unknown> | undefined;

  /** Runs a call. `work` begins at once. */
  async run(
    id: string,
    kind: Kind,
    finite: boolean,
    work: (ticket: Ticket) => Promise<boolean>,
  ): Promise<boolean> {
    const before = this.#latest.get(id);
    const ticket = new Ticket(id, kind, finite, before?.kind === "remove" ? before.done : this.#clearing);
    if (before) before.next = ticket;
    this.#latest.set(id, ticket);
    let did = false;
    try {
      did = await work(ticket);
      return did;
    } finally {
      if (this.#latest.get(id) === ticket) this.#latest.delete(id);
      ticket.finish(did);
    }
  }

  /**
   * Removes everything, after what ends soon. What is still being read from elsewhere is not stored any more.
   */
  async clear(work: () => Promise<void>): Promise<void> {
    const drained = this.drained();
    for (const ticket of this.#latest.values()) ticket.next = "clear";
    this.#latest.clear();
    const cleared = drained.then(work);
    const clearing = cleared.catch(() => undefined);
    this.#clearing = clearing;
    await cleared.finally(() => {
      if (this.#clearing === clearing) this.#clearing = undefined;
    });
  }

  /** Whether no read has to wait for anything. */
  get isIdle(): boolean {
    return this.#latest.size === 0 && this.#clearing === undefined;
  }

  /** What a read of this key has to wait for, if there is anything. */
  pending(id: string): Promise<unknown> | undefined {
    const latest = this.#latest.get(id);
    return latest?.finite ? latest.done : this.#clearing;
  }

  /** Waits for what ends soon. */
  async drained(): Promise<void> {
    const finite = [...this.#latest.values()].filter((ticket) => ticket.finite);
    await Promise.all([this.#clearing, ...finite.map(({ done }) => done)]);
  }
}
