import type { WarmstartError } from "./errors.js";
import { tell } from "./listener.js";

/** The key of the entry that an event is about. */
export interface EventEntry {
  /** The bytes of the key. */
  key: Uint8Array;
  /** The key as text, if its bytes are UTF-8. */
  text: string | undefined;
}

/** The events of a cache, and the argument that their listeners receive. */
export interface CacheEvents {
  /** A look-up found a value; `size` is its length in bytes. */
  hit: EventEntry & { size: number };
  /** A look-up found no value; `reason` says why, for example `absent` or `checksum_mismatch`. */
  miss: EventEntry & { reason: string };
  /** A value was stored; `size` is its length in bytes. */
  stored: EventEntry & { size: number };
  /** A value of `size` bytes was not stored; `reason` says why, for example `oversize` or `no_space`. */
  refused: EventEntry & { size: number; reason: string };
  /** The cache evicted `count` entries. */
  evicted: { count: number };
  /** The cache stores values in memory only: `memory_only` or `no_space`. */
  warning: WarmstartError;
}

/** A listener of an event. */
export type Listener<Name extends keyof CacheEvents> = (detail: CacheEvents[Name]) => void;

/**
 * The events of a cache, for live lists and logs. The browser reports an exception of a listener as
 * uncaught; it affects neither the cache nor other listeners.
 *
 * @example
 * const stop = cache.events.on("miss", ({ text, reason }) => console.log(text, reason));
 */
export class Events {
  /**
   * The listeners of each event that has any; the argument of others is not built.
   *
   * @internal
   */
  readonly heard = new Map<keyof CacheEvents, Set<Listener<never>>>();

  /** Calls `listener` at every event of this name. Returns a function that removes the listener. */
  on<Name extends keyof CacheEvents>(name: Name, listener: Listener<Name>): () => void {
    const all = this.heard.get(name) ?? new Set();
    this.heard.set(name, all.add(listener));
    return () => {
      // A later set may have taken the place of an empty one.
      if (all.delete(listener) && all.size === 0) this.heard.delete(name);
    };
  }

  /**
   * Calls the listeners of `name`.
   *
   * @internal
   */
  emit<Name extends keyof CacheEvents>(name: Name, detail: CacheEvents[Name]): void {
    for (const listener of [...(this.heard.get(name) ?? [])]) tell(listener as Listener<Name>, detail);
  }
}
