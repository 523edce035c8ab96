import type { WarmstartError } from "./errors.js";
import { tell } from "./listener.js";

/** What an entry is called in an event. */
export interface EventEntry {
  /** The bytes of the key. */
  key: Uint8Array;
  /** The key as text, where it is text. */
  text: string | undefined;
}

/** Each event and what its listeners are given. */
export interface CacheEvents {
  /** A value was found; `size` is its length in bytes. */
  hit: EventEntry & { size: number };
  /** A value was not found; `reason` says why, for example `absent` or `checksum_mismatch`. */
  miss: EventEntry & { reason: string };
  /** A value was stored; `size` is its length in bytes. */
  stored: EventEntry & { size: number };
  /** A value of `size` bytes was not stored; `reason` says why, for example `oversize` or `no_space`. */
  refused: EventEntry & { size: number; reason: string };
  /** Entries went, to make room; `count` is how many. */
  evicted: { count: number };
  /** The cache goes on, but not as it should: `memory_only` or `no_space`. */
  warning: WarmstartError;
}

/** A listener of an event. */
export type Listener<Name extends keyof CacheEvents> = (detail: CacheEvents[Name]) => void;

/**
 * What a cache tells while it works, for live lists and logs. What a listener throws is reported as of any
 * event of the browser, and disturbs nobody.
 *
 * @example
 * const stop = cache.events.on("miss", ({ text, reason }) => console.log(text, reason));
 */
export class Events {
  readonly #listeners = new Map<keyof CacheEvents, Set<Listener<never>>>();

  /** Calls `listener` at every event of that name. Returns a function that ends it. */
  on<Name extends keyof CacheEvents>(name: Name, listener: Listener<Name>): () => void {
    let all = this.#listeners.get(name);
    if (!all) this.#listeners.set(name, (all = new Set()));
    all.add(listener);
    return () => this.off(name, listener);
  }

  /** No longer calls `listener`. */
  off<Name extends keyof CacheEvents>(name: Name, listener: Listener<Name>): void {
    this.#listeners.get(name)?.delete(listener);
  }

  /** Whether somebody listens; what nobody hears need not be made.
   * @internal */
  has(name: keyof CacheEvents): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  /** Calls the listeners of `name`.
   * @internal */
  emit<Name extends keyof CacheEvents>(name: Name, detail: CacheEvents[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      tell(listener as Listener<Name>, detail);
    }
  }
}
