/** A pending write or removal of a key. */
export class Ticket {
  /** A later call that took effect first, or a removal of everything. */
  #overtaken: Ticket | "clear" | undefined;
  /** What the call does, once it has begun. */
  work: Promise<boolean> | undefined;
  #isQueued = false;

  /**
   * @param endsSoon whether the call ends soon, because it does not read from a network: look-ups of its key wait for it
   * @param earlier the calls for its key that were made before it
   */
  constructor(readonly isWrite: boolean, public endsSoon: boolean, private readonly earlier: readonly Ticket[]) {}

  /**
   * Takes effect: the store makes its changes in this order. Earlier calls that have not come to this point never will.
   * Returns `undefined`; or, if a later call was before it, the outcome of that call: `false` if it removed the key.
   */
  queue(): Promise<boolean> | undefined {
    if (this.#overtaken === "clear") return Promise.resolve(false);
    if (this.#overtaken) return this.#overtaken.isWrite ? this.#overtaken.done() : Promise.resolve(false);
    this.#isQueued = true;
    for (const ticket of this.earlier) ticket.overtakenBy(this);
    return undefined;
  }

  /** Waits for the end of the call. Returns whether it did something. Never rejects. */
  async done(): Promise<boolean> {
    try {
      return (await this.work) ?? false;
    } catch {
      return false;
    }
  }

  overtakenBy(later: Ticket | "clear"): void {
    if (!this.#isQueued) this.#overtaken = later;
  }
}

/** Keeps the order of the calls for one key, though large values take longer than small ones. */
export class Order {
  readonly #tickets = new Map<string, Ticket[]>();
  #clearing: Promise<unknown> | undefined;
  /** Whether no read has to wait for anything. */
  isIdle = true;

  /** Runs a call, and starts `work` immediately. */
  run(
    id: string,
    kind: "write" | "remove",
    endsSoon: boolean,
    work: (ticket: Ticket) => Promise<boolean>,
  ): Promise<boolean> {
    const earlier = this.#tickets.get(id) ?? [];
    const ticket = new Ticket(kind === "write", endsSoon, earlier);
    this.#tickets.set(id, [...earlier, ticket]);
    this.isIdle = false;
    ticket.work = work(ticket);
    const end = (): void => this.#end(id, ticket);
    // Registered before the caller's handlers, so the call has ended when they run.
    ticket.work.then(end, end);
    return ticket.work;
  }

  #end(id: string, ticket: Ticket): void {
    const others = this.#tickets.get(id)?.filter((other) => other !== ticket) ?? [];
    if (others.length > 0) this.#tickets.set(id, others);
    else this.#tickets.delete(id);
    this.#rest();
  }

  /** Removes everything. Values that are still being read are not stored any more. */
  async clear(work: () => Promise<void>): Promise<void> {
    for (const ticket of [...this.#tickets.values()].flat()) ticket.overtakenBy("clear");
    const clearing = (this.#clearing = work());
    this.isIdle = false;
    await clearing.finally(() => {
      if (this.#clearing === clearing) this.#clearing = undefined;
      this.#rest();
    });
  }

  #rest(): void {
    this.isIdle = this.#tickets.size === 0 && this.#clearing === undefined;
  }

  /** Returns the end of the calls that a read of this key must wait for, if there are any. */
  pending(id: string): Promise<unknown> | undefined {
    if (this.isIdle) return undefined;
    const awaited = this.#tickets.get(id)?.filter((ticket) => ticket.endsSoon) ?? [];
    if (awaited.length === 0) return this.#clearing;
    return Promise.all([this.#clearing, ...awaited.map((ticket) => ticket.done())]);
  }

  /** Waits for the calls that end soon. */
  async drained(): Promise<void> {
    await Promise.all([...this.#tickets.keys()].map((id) => this.pending(id)));
    await this.#clearing;
  }
}
