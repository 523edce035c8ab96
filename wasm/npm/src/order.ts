/** The effect of a call on its key. */
export type Kind = "write" | "remove";

/** A pending write or removal of a key. */
export class Ticket {
  /** What names the key. */
  readonly id: string;
  readonly kind: Kind;
  /** Whether it ends soon, because it does not read from a network. */
  finite: boolean;
  /** An earlier removal that must be done before this call stores anything. */
  readonly after: Promise<unknown> | undefined;
  /** The call for the same key that came before, until it or this one has ended. */
  before: Ticket | undefined;
  /** Whether it is a write that will be stored regardless of later calls. */
  isStoring = false;
  hasEnded = false;
  /** Its result: `true` if it did something. Never rejects. */
  readonly done: Promise<boolean>;
  /** The call for the same key that came next, or `"clear"`. */
  next: Ticket | "clear" | undefined;
  /** Ends it. */
  readonly finish: (did: boolean) => void;

  constructor(
    id: string,
    kind: Kind,
    finite: boolean,
    before: Ticket | undefined,
    clearing?: Promise<unknown>,
  ) {
    this.id = id;
    this.kind = kind;
    this.finite = finite;
    this.before = before;
    // Writes that replace this one wait for the same calls.
    this.after = before?.kind === "remove" ? before.done : (before?.after ?? clearing);
    let finish!: (did: boolean) => void;
    this.done = new Promise((resolve) => (finish = resolve));
    this.finish = finish;
  }

  /** The calls that end soon: this one, and earlier ones that still take effect. */
  ending(): Promise<boolean>[] {
    const all = this.finite ? [this.done] : [];
    for (let each = this.before; each; each = each.before) {
      if (!each.hasEnded && (each.isStoring || each.kind === "remove")) all.push(each.done);
    }
    return all;
  }

  /** The last call before this one that has not ended. */
  earlier(): Ticket | undefined {
    let each = this.before;
    while (each?.hasEnded) each = each.before;
    return each;
  }

  /** The result of the write that replaced this one; `false` if the key was removed since. */
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

  /** Runs a call, and starts `work` immediately. */
  async run(
    id: string,
    kind: Kind,
    finite: boolean,
    work: (ticket: Ticket) => Promise<boolean>,
  ): Promise<boolean> {
    const before = this.#latest.get(id);
    const ticket = new Ticket(id, kind, finite, before, this.#clearing);
    if (before) before.next = ticket;
    this.#latest.set(id, ticket);
    let did = false;
    try {
      did = await work(ticket);
      return did;
    } finally {
      this.#end(ticket);
      ticket.finish(did);
    }
  }

  /** Earlier calls may be pending: an aborted call ends before the one that it would have replaced. */
  #end(ticket: Ticket): void {
    ticket.hasEnded = true;
    const earlier = ticket.earlier();
    ticket.before = earlier;
    if (this.#latest.get(ticket.id) !== ticket) return;
    if (earlier) this.#latest.set(ticket.id, earlier);
    else this.#latest.delete(ticket.id);
  }

  /**
   * Removes everything, after the calls that end soon. Values that are still being read are not stored any more.
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

  /** The call that a read of this key must wait for, if any. */
  pending(id: string): Promise<unknown> | undefined {
    const ending = this.#latest.get(id)?.ending() ?? [];
    if (ending.length < 2) return ending[0] ?? this.#clearing;
    return Promise.all(ending);
  }

  /** Waits for the calls that end soon. */
  async drained(): Promise<void> {
    const ending = [...this.#latest.values()].flatMap((ticket) => ticket.ending());
    await Promise.all([this.#clearing, ...ending]);
  }
}
