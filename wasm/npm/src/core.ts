import { Batch } from "./batch.js";
import type { Engine } from "./engine.js";
import { type ErrorCode, WarmstartError } from "./errors.js";
import { type CacheEvents, type EventEntry, Events } from "./events.js";
import type { Made } from "./create.js";
import { Flights } from "./flight.js";
import { checkedAs, type Content, handOut, handOutVerified } from "./handout.js";
import { idOf, keyBytes, type KeyInput, keyText } from "./key.js";
import { TabLocks } from "./locks.js";
import { encodeMetadata } from "./metadata.js";
import { Order, type Ticket } from "./order.js";
import { feed, feedNow, Pace } from "./pace.js";
import { partsLength } from "./store/record.js";
import type { About, Found, Item, Store } from "./store/store.js";
import type { As, Formats, PutOptions, Value } from "./types.js";
import {
  isStream,
  type LargePayload,
  makeParts,
  type Payload,
  payloadOf,
  release,
  type Shape,
} from "./values.js";
import { damageOf, type Large, slices } from "./verify.js";
import { encoded, explanation } from "./reasons.js";

/** One transaction reads no more values than this, so that others get their turn. */
const MOST = 2048;

/** How a cache was opened. */
export interface Opened {
  name: string;
  memory: boolean;
  onWarning: ((warning: WarmstartError) => void) | undefined;
}

/** A value that is ready to be stored. */
export interface Ready {
  payload: Payload;
  metadata: Uint8Array;
  buildMs: number;
}

/** The bytes that a large value adds to a batch; small values do not count. */
function bytesOf({ parts = [] }: Item): number {
  return partsLength(parts) ?? 0;
}

/** The state that a cache shares with the caches of its builds: the store, and pending calls. */
export class Core {
  readonly engine: Engine;
  readonly store: Store;
  readonly name: string;
  readonly events = new Events();
  readonly order = new Order();
  readonly flights: Flights<Made>;
  readonly shape: Shape;
  readonly #opened: Opened;
  readonly #warned = new Set<ErrorCode>();
  readonly #reads: Batch<Uint8Array, Found | string>;
  readonly #has: Batch<Uint8Array, boolean>;
  readonly #writes: Batch<Item, string | undefined>;
  #evictions = 0;

  constructor(engine: Engine, store: Store, opened: Opened) {
    this.engine = engine;
    this.store = store;
    this.name = opened.name;
    this.#opened = opened;
    this.shape = { small: engine.small_limit(), blobs: () => store.storesBlobs };
    this.flights = new Flights(new TabLocks(opened.name), () => this.backend === "indexeddb");
    this.#reads = new Batch<Uint8Array, Found | string>((keys, tell) => store.read(keys, tell), {
      failed: "unavailable",
    });
    this.#has = new Batch((keys) => store.has(keys), { failed: false });
    this.#writes = new Batch((items) => this.#write(items), {
      failed: "unavailable",
      oneAtATime: true,
      bytesOf,
    });
    globalThis.addEventListener?.("pagehide", this.#hidden);
    globalThis.document?.addEventListener("visibilitychange", this.#hidden);
    // The code that opened the cache has added its listeners by then.
    setTimeout(() => this.#checkBackend(), 0);
  }

  async get(input: KeyInput, as: As): Promise<Formats[As] | undefined> {
    checkedAs(as);
    return (await this.read(input, keyBytes(input), as, true))?.value;
  }

  /** Reads many values in as few transactions as may be, and without a promise for each that is small. */
  async getMany(inputs: readonly KeyInput[], as: As): Promise<(Formats[As] | undefined)[]> {
    checkedAs(as);
    const keys = inputs.map(keyBytes);
    if (!this.order.isIdle) await Promise.all(inputs.map((input) => this.order.pending(idOf(input))));
    const values: (Formats[As] | undefined)[] = new Array(keys.length);
    const later: Promise<unknown>[] = [];
    for (let from = 0; from < keys.length; from += MOST) {
      const some = keys.slice(from, from + MOST);
      const looked = await this.store.read(some).catch(() => some.map(() => "unavailable"));
      looked.forEach((found, at) => {
        const answer = this.#answered(some[at]!, found, as, true);
        if (answer instanceof Promise) later.push(answer.then((read) => (values[from + at] = read?.value)));
        else values[from + at] = answer?.value;
      });
    }
    await Promise.all(later);
    return values;
  }

  /** Reads and verifies. A `lazy` response is verified while it is read. */
  async read(
    input: KeyInput,
    key: Uint8Array,
    as: As,
    lazy: boolean,
  ): Promise<{ value: Formats[As] } | undefined> {
    const pending = this.order.pending(idOf(input));
    if (pending) await pending;
    return this.#answered(key, await this.#reads.add(key), as, lazy);
  }

  /** Returns the result of a look-up in the requested format; synchronously if nothing is left to do. */
  #answered(
    key: Uint8Array,
    found: Found | string,
    as: As,
    lazy: boolean,
  ): { value: Formats[As] } | undefined | Promise<{ value: Formats[As] } | undefined> {
    if (typeof found === "string") return this.#missed(key, found);
    if (found.bytes === undefined) return this.#verified(key, found, as, lazy);
    this.#tell("hit", key, () => ({ size: found.size }));
    if (as === "bytes") return { value: found.bytes };
    return handOut(this.engine, found as Content, as, true).then((value) => ({ value }));
  }

  async #verified(
    key: Uint8Array,
    found: Large,
    as: As,
    lazy: boolean,
  ): Promise<{ value: Formats[As] } | undefined> {
    const onDamage = (reason: string): Promise<void> => this.damaged(key, found, reason);
    const result = await handOutVerified(this.engine, found, as, lazy, onDamage);
    if (result.damage !== undefined) {
      // A value that is built meanwhile must not be removed instead.
      await this.damaged(key, found, result.damage);
      return undefined;
    }
    this.#tell("hit", key, () => ({ size: found.size }));
    return result;
  }

  /** Where values are kept now. */
  get backend(): "indexeddb" | "memory" {
    return this.store.backend === "indexeddb" ? "indexeddb" : "memory";
  }

  /** Looks without counting it as a use. The value is verified. */
  async peek(key: Uint8Array): Promise<Content | undefined> {
    const [found] = await this.store.peek([key]);
    if (found === undefined || typeof found === "string") return undefined;
    if (found.bytes) return found as Content;
    // The build that follows replaces a damaged value.
    return (await damageOf(this.engine, found)) === undefined ? found : undefined;
  }

  async put(input: KeyInput, value: Value, options: PutOptions = {}): Promise<boolean> {
    const { signal } = options;
    const key = keyBytes(input);
    signal?.throwIfAborted();
    const metadata = encodeMetadata(input, value, options);
    const taken = payloadOf(value, this.shape, { signal, borrow: true });
    return this.order.run(idOf(input), "write", !isStream(value), async (ticket) => {
      // Awaiting an available value would let the caller change it.
      const payload = taken instanceof Promise ? await taken : taken;
      return this.write(ticket, key, { payload, metadata, buildMs: 0 }, signal);
    });
  }

  /** Stores a value, and says whether it did. It rejects only if the value itself cannot be read. */
  async write(ticket: Ticket, key: Uint8Array, ready: Ready, signal?: AbortSignal): Promise<boolean> {
    ticket.finite = true;
    const { payload, metadata, buildMs } = ready;
    const about = { key, metadata, createdMs: Date.now(), buildMs };
    let item: Item;
    let reason: string | undefined;
    try {
      item = payload.bytes
        ? { ...about, envelope: this.#envelope(about, payload.bytes), payload: payload.size }
        : {
            ...about,
            head: await this.#head(about, payload, signal),
            parts: payload.parts,
          };
      if (ticket.after) await ticket.after;
      if (ticket.next) return await ticket.outcome();
      ticket.isStoring = true;
      reason = await this.#writes.add(item);
    } catch (error) {
      // The engine throws the name of a reason for values that the format cannot hold.
      if (typeof error !== "string") throw error;
      reason = error;
    } finally {
      release(payload);
    }
    const { size } = payload;
    if (reason === undefined) this.#tell("stored", key, () => ({ size }));
    else this.#refused(key, size, reason);
    return reason === undefined;
  }

  async has(input: KeyInput): Promise<boolean> {
    const key = keyBytes(input);
    const pending = this.order.pending(idOf(input));
    if (pending) await pending;
    return this.#has.add(key);
  }

  async delete(input: KeyInput): Promise<boolean> {
    const key = keyBytes(input);
    const id = idOf(input);
    const pending = this.order.pending(id);
    return this.order.run(id, "remove", true, async () => {
      if (pending) await pending;
      const [removed] = await this.store.remove([key]);
      return removed ?? false;
    });
  }

  clear(): Promise<void> {
    return this.order.clear(() => this.store.clear());
  }

  async flush(): Promise<void> {
    await this.order.drained();
    await this.store.flush();
  }

  async close(): Promise<void> {
    globalThis.removeEventListener?.("pagehide", this.#hidden);
    globalThis.document?.removeEventListener("visibilitychange", this.#hidden);
    await this.order.drained();
    await this.store.close();
  }

  /** Removes and counts a large value that failed verification. */
  async damaged(key: Uint8Array, found: Large, reason: string): Promise<void> {
    this.#tell("miss", key, () => ({ reason }));
    await this.store.damaged(key, found.head, reason);
  }

  /** Encodes a small value, and so copies it, before this function first waits. */
  #envelope(about: About & { key: Uint8Array }, bytes: Uint8Array): Uint8Array {
    const { key, metadata, createdMs, buildMs } = about;
    return encoded(this.engine, this.engine.encode_small(key, metadata, bytes, createdMs, buildMs));
  }

  /**
   * Hashes a large value, and makes its parts where that is still to be done. What is the caller's is looked
   * at only before this function first waits.
   */
  async #head(
    about: { key: Uint8Array; metadata: Uint8Array; createdMs: number; buildMs: number },
    payload: LargePayload,
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array> {
    const { key, metadata, createdMs, buildMs } = about;
    const { engine } = this;
    const writer = new engine.HeadWriter(key, metadata, payload.size, createdMs, buildMs);
    try {
      const pace = new Pace();
      const done = payload.source ? feedNow(writer, payload.source, pace) : 0;
      delete payload.source;
      if (payload.copy) await makeParts(payload, payload.copy, writer, signal);
      else if (done < payload.size) {
        for await (const slice of slices(payload.parts, done)) {
          signal?.throwIfAborted();
          await feed(writer, slice, pace);
        }
      }
    } catch (error) {
      writer.free();
      throw error;
    }
    return encoded(engine, writer.finish());
  }

  async #write(items: Item[]): Promise<(string | undefined)[]> {
    const reasons = await this.store.write(items);
    this.#checkBackend();
    if (this.events.has("evicted")) {
      const { evictions } = this.store.counters;
      if (evictions > this.#evictions) this.events.emit("evicted", { count: evictions - this.#evictions });
      this.#evictions = evictions;
    }
    return reasons;
  }

  #missed(key: Uint8Array, reason: string): undefined {
    this.#tell("miss", key, () => ({ reason }));
  }

  #refused(key: Uint8Array, size: number, reason: string): void {
    this.#tell("refused", key, () => ({ size, reason }));
    if (reason === "no_space") {
      const message =
        "The browser's quota is exceeded, so the newest values are in memory only; " +
        "free disk space, or set a lower maxBytes.";
      this.#warn("no_space", message);
    } else if (reason === "unavailable" || reason === "busy") {
      const why = explanation(this.engine, reason);
      this.#warn("memory_only", `Some values are in memory only: ${why} (${reason}).`);
    }
  }

  #tell<Name extends "hit" | "miss" | "stored" | "refused">(
    name: Name,
    key: Uint8Array,
    more: () => Omit<CacheEvents[Name], keyof EventEntry>,
  ): void {
    if (!this.events.has(name)) return;
    this.events.emit(name, { key, text: keyText(key), ...more() } as CacheEvents[Name]);
  }

  #checkBackend(): void {
    if (this.#opened.memory || this.backend !== "memory") return;
    const why = this.store.reason ?? "unavailable";
    const sentence = explanation(this.engine, why);
    this.#warn(
      "memory_only",
      `The cache "${this.name}" is in memory and will not outlive this page: ${sentence} (${why}).`,
    );
  }

  /** Each warning is given once. */
  #warn(code: ErrorCode, message: string): void {
    if (this.#warned.has(code)) return;
    this.#warned.add(code);
    const warning = new WarmstartError(code, message);
    const { onWarning } = this.#opened;
    if (!onWarning && !this.events.has("warning")) console.warn(`warmstart: ${message}`);
    this.events.emit("warning", warning);
    onWarning?.(warning);
  }

  /** Flushes when the page is hidden, because it may never run again. */
  readonly #hidden = (): void => {
    if (globalThis.document?.visibilityState === "visible") return;
    this.store.flushNow();
  };
}
