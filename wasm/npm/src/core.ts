import * as engine from "../engine/warmstart_wasm.js";
import { type Content, damageOf, handOut, handOutVerified, type Large, lazyResponse } from "./content.js";
import { encodeEnvelope, encoded, explanation } from "./engine.js";
import { type ErrorCode, invalid, WarmstartError } from "./errors.js";
import { type CacheEvents, type EventEntry, Events } from "./events.js";
import { Flights } from "./flight.js";
import { idOf, type KeyInput, keyOf, textOf } from "./key.js";
import { encodeMetadata } from "./metadata.js";
import { Order, type Ticket } from "./order.js";
import { fill, type Payload, payloadOf, release } from "./payload.js";
import {
  type Found, type Head, isDamage, type LargeRecord, opened, type Stored, storedSize,
} from "./store/record.js";
import { DbError, type Store } from "./store/store.js";
import type { As, Counters, Formats, PutOptions, Value } from "./types.js";

/** A value that is ready to be stored. */
interface Ready {
  payload: Payload;
  metadata: Uint8Array;
  buildMs: number;
}

/** The result of a look-up: a value, or nothing. */
type Answer = { value: Formats[As] } | undefined;

/** The most bytes of key and metadata in an envelope that is encoded and verified as a whole. */
const SHORT = 15 * 1024;

/** The state of a cache: the store, the counters and the pending calls. */
export class Core {
  readonly events = new Events();
  readonly order = new Order();
  readonly flights: Flights<Content>;
  readonly counters: Counters = {
    hits: 0, misses: {}, refusals: {}, builds: 0, shared: 0, bytesRead: 0, bytesWritten: 0, evictions: 0, buildMs: 0,
    savedMs: 0,
  };
  /** Whether the caller asked for memory. */
  readonly #isInMemory: boolean;
  readonly #warned = new Set<ErrorCode>();

  constructor(readonly store: Store, readonly name: string, isInMemory: boolean) {
    this.#isInMemory = isInMemory;
    this.flights = new Flights(name, () => store.backend === "indexeddb");
    store.onEvicted = (count) => {
      this.counters.evictions += count;
      if (count > 0) this.events.emit("evicted", { count });
    };
    globalThis.addEventListener?.("pagehide", this.#hidden);
    globalThis.document?.addEventListener("visibilitychange", this.#hidden);
    // The code that opened the cache has added its listeners by then.
    setTimeout(() => this.#checkBackend(), 0);
  }

  async get(input: KeyInput, as: As): Promise<Formats[As] | undefined> {
    return (await this.read(idOf(checkedAs(as) && input), as, true))?.value;
  }

  async getMany(inputs: readonly KeyInput[], as: As): Promise<(Formats[As] | undefined)[]> {
    checkedAs(as);
    const answers = await Promise.all(inputs.map(idOf).map((id) => this.read(id, as, true)));
    return answers.map((answer) => answer?.value);
  }

  /** Reads and verifies. A `lazy` response is verified while it is read. */
  read(id: string, as: As, lazy: boolean): Promise<Answer> {
    const look = (): Promise<Answer> =>
      new Promise((resolve) => {
        this.store.read(id, (record) => resolve(this.#answer(id, record, as, lazy)));
      });
    if (this.order.isIdle) return look();
    return Promise.resolve(this.order.pending(id)).then(look);
  }

  /** Reads and verifies a value without counting a use. If it is damaged, counts and removes it. Returns the reason. */
  async verify(id: string): Promise<string | undefined> {
    const found = await this.peek(id);
    if (typeof found === "string") {
      if (isDamage(found)) await this.#missed(id, found, this.#isBad(id));
      return found;
    }
    const reason = found.parts && (await damageOf(found));
    if (found.parts && reason !== undefined) await this.#damaged(id, found, reason);
    return reason;
  }

  /** Looks a value up without counting it as a use. Only the head of a large one is verified. */
  async peek(id: string): Promise<Found | string> {
    const record = await new Promise((resolve) => this.store.read(id, resolve));
    return record instanceof DbError ? record.reason : this.#found(record, id);
  }

  async put(input: KeyInput, value: Value, options: PutOptions = {}): Promise<boolean> {
    const { signal, transfer, onProgress } = options;
    const id = idOf(input);
    signal?.throwIfAborted();
    const metadata = encodeMetadata(input, value, options);
    const taken = payloadOf(value, { blobs: this.store.storesBlobs, signal, onProgress, transfer });
    const write = (ticket: Ticket, payload: Payload): Promise<boolean> =>
      this.write(ticket, id, { payload, metadata, buildMs: 0 }, signal);
    // A response or a stream depends on the network or on other code, so reading it may never end.
    const endsSoon = !(value instanceof Response || value instanceof ReadableStream);
    // Awaiting an available value would let the caller change it.
    return this.order.run(id, "write", endsSoon, (ticket) =>
      taken instanceof Promise ? taken.then((payload) => write(ticket, payload)) : write(ticket, taken),
    );
  }

  /** Stores a value, and returns whether it did. Rejects only if the value itself cannot be read. */
  write(ticket: Ticket, id: string, ready: Ready, signal?: AbortSignal): Promise<boolean> {
    ticket.endsSoon = true;
    const { payload, metadata, buildMs } = ready;
    const key = keyOf(id);
    const isShort = payload.bytes !== undefined && key.length + metadata.length <= SHORT;
    if (!isShort) return this.#writeLarge(ticket, id, ready, signal);
    // Encodes a small value, and so copies it, before the caller runs again.
    return this.#store(ticket, id, payload, encodeEnvelope(key, metadata, payload.bytes, buildMs));
  }

  async #writeLarge(ticket: Ticket, id: string, ready: Ready, signal?: AbortSignal): Promise<boolean> {
    const { payload } = ready;
    try {
      const record = await this.#large(keyOf(id), ready, signal);
      const store = (stored: Stored): Promise<boolean> => this.#store(ticket, id, payload, stored);
      return await (this.store.admits(storedSize(record)) ? this.store.withPieces(record, store) : store(record));
    } catch (error) {
      // The engine throws the name of a reason for values that the format cannot hold.
      if (typeof error !== "string") throw error;
      this.#stored(id, payload.size, error);
      return false;
    } finally {
      release(payload);
    }
  }

  #store(ticket: Ticket, id: string, { size }: Payload, record: Stored): Promise<boolean> {
    const isAdmitted = this.store.admits(storedSize(record));
    const overtaken = isAdmitted ? ticket.queue() : undefined;
    if (overtaken) return overtaken;
    const done = (reason: string | undefined): boolean => {
      this.#stored(id, size, reason);
      return reason === undefined;
    };
    // Listeners may change the builder's bytes, so none is called yet.
    return (isAdmitted ? this.store.put(id, record) : Promise.resolve("oversize")).then(done);
  }

  async has(input: KeyInput): Promise<boolean> {
    const id = idOf(input);
    const pending = this.order.pending(id);
    if (pending) await pending;
    return this.store.has(id);
  }

  async delete(input: KeyInput): Promise<boolean> {
    const id = idOf(input);
    return this.order.run(id, "remove", true, async (ticket) => {
      void ticket.queue();
      return this.store.remove(id);
    });
  }

  clear(): Promise<void> {
    return this.order.clear(() => this.store.clear());
  }

  async flush(): Promise<void> {
    await this.order.drained();
    await this.store.sync();
  }

  async close(): Promise<void> {
    globalThis.removeEventListener?.("pagehide", this.#hidden);
    globalThis.document?.removeEventListener("visibilitychange", this.#hidden);
    await this.order.drained();
    await this.store.close();
  }

  /** Counts a miss. Waits until a damaged record is removed, because the caller may then store another one. */
  async #missed(id: string, reason: string, isStill?: (record: unknown) => boolean): Promise<undefined> {
    this.counters.misses[reason] = (this.counters.misses[reason] ?? 0) + 1;
    this.#tell("miss", id, () => ({ reason }));
    await this.store.missed(id, reason, isStill);
    return undefined;
  }

  /** Returns the result of a look-up in the requested format; synchronously if nothing is left to do. */
  #answer(id: string, record: unknown, as: As, lazy: boolean): Answer | Promise<Answer> {
    if (record instanceof DbError) return this.#missed(id, record.reason);
    const found = this.#found(record, id);
    if (typeof found === "string") return this.#missed(id, found, isDamage(found) ? this.#isBad(id) : undefined);
    if (as === "response" && lazy) return { value: this.#lazy(id, found) };
    if (found.parts) return this.#verified(id, found, as);
    this.#hit(id, found);
    if (as === "bytes") return { value: found.bytes };
    return handOut(found, as, true).then((value) => ({ value }));
  }

  #isBad(id: string): (record: unknown) => boolean {
    return (record) => {
      const found = opened(record, id);
      return typeof found === "string" && isDamage(found);
    };
  }

  /** Opens a record. Pieces of a payload are read later. */
  #found(record: unknown, id: string): Found | string {
    const found = opened(record, id);
    const pieces = (record as LargeRecord | undefined)?.p;
    if (typeof found === "string" || pieces === undefined) return found;
    return { head: found.head, parts: this.store.pieces(pieces) };
  }

  /** Returns a response that counts as a use when it is read: a runtime looks for one up to three times before. */
  #lazy(id: string, found: Found): Response {
    return lazyResponse(found, (damage) =>
      damage === undefined ? this.#hit(id, found) : this.#damaged(id, found, damage),
    );
  }

  async #verified(id: string, found: Large, as: As): Promise<Answer> {
    const result = await handOutVerified(found, as);
    if (result.damage !== undefined) return this.#damaged(id, found, result.damage);
    this.#hit(id, found);
    return result;
  }

  /** Counts a large value that failed verification, and removes it if it still has this head. */
  #damaged(id: string, { head }: { head: Head }, reason: string): Promise<undefined> {
    const { padded } = head;
    return this.#missed(id, reason, (record) => {
      const { h } = (record ?? {}) as Partial<LargeRecord>;
      return h?.length === padded.length && h.every((byte, at) => byte === padded[at]);
    });
  }

  #hit(id: string, { head }: Found): void {
    const { size } = head;
    this.counters.hits += 1;
    this.counters.bytesRead += size;
    this.counters.savedMs += head.buildMs;
    this.store.used(id);
    this.#tell("hit", id, () => ({ size }));
  }

  /** Hashes a large value, and makes its parts where that is still to be done. */
  async #large(key: Uint8Array, ready: Ready, signal: AbortSignal | undefined): Promise<Stored> {
    const { metadata, buildMs, payload } = ready;
    const writer = new engine.HeadWriter(key, metadata, payload.size, Date.now(), buildMs);
    const { bytes } = payload;
    // A small value with a long key or long metadata is stored as a large one.
    const large = bytes ? { size: bytes.length, parts: [bytes.slice().buffer], reserved: 0 } : payload;
    try {
      await fill(large, writer, { blobs: this.store.storesBlobs, signal });
    } catch (error) {
      writer.free();
      throw error;
    }
    const h = encoded(writer.finish());
    return { h, c: engine.head_sum(h), b: large.parts };
  }

  #stored(id: string, size: number, reason: string | undefined): void {
    this.#checkBackend();
    if (reason === undefined) {
      this.counters.bytesWritten += size;
      return this.#tell("stored", id, () => ({ size }));
    }
    this.counters.refusals[reason] = (this.counters.refusals[reason] ?? 0) + 1;
    this.#tell("refused", id, () => ({ size, reason }));
    if (reason === "no_space") {
      const message =
        "The browser's quota is exceeded, so the newest values are in memory only; " +
        "free disk space, or set a lower maxBytes.";
      this.#warn("no_space", message);
    } else if (reason === "unavailable" || reason === "busy") {
      this.#warn("memory_only", `Some values are in memory only: ${explanation(reason)} (${reason}).`);
    }
  }

  #tell<Name extends "hit" | "miss" | "stored" | "refused">(
    name: Name,
    id: string,
    more: () => Omit<CacheEvents[Name], keyof EventEntry>,
  ): void {
    if (!this.events.heard.has(name)) return;
    this.events.emit(name, { key: keyOf(id), text: textOf(id), ...more() } as CacheEvents[Name]);
  }

  #checkBackend(): void {
    if (this.#isInMemory || this.store.backend !== "memory") return;
    const why = this.store.reason ?? "unavailable";
    this.#warn(
      "memory_only",
      `The cache "${this.name}" is in memory and will not outlive this page: ${explanation(why)} (${why}).`,
    );
  }

  /** Emits a warning, once for each code. */
  #warn(code: ErrorCode, message: string): void {
    if (this.#warned.has(code)) return;
    this.#warned.add(code);
    if (!this.events.heard.has("warning")) console.warn(`warmstart: ${message}`);
    this.events.emit("warning", new WarmstartError(code, message));
  }

  /** Writes uses when the page is hidden, because it may never run again. */
  readonly #hidden = (): void => {
    if (globalThis.document?.visibilityState === "visible") return;
    this.store.flushNow();
  };
}

/** Fails if `as` is none of the formats. */
export function checkedAs(as: As): As {
  if (["bytes", "blob", "text", "json", "response"].includes(as)) return as;
  throw invalid(`"${as}" is not a format; use "bytes", "blob", "text", "json" or "response".`);
}
