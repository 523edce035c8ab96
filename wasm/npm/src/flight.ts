import { tell } from "./listener.js";
import type { Progress } from "./types.js";

/** A call that wants a value which is not stored. */
export interface Wanted<Result> {
  /** The text that the key is stored under. */
  id: string;
  /** The longest wait without progress, in milliseconds. */
  waitMs: number;
  signal: AbortSignal | undefined;
  onProgress: Progress | undefined;
  /** Looks for the value again: another tab may have stored it. */
  look: () => Promise<Result | undefined>;
  /** Builds and stores it. */
  build: (flight: Flight) => Promise<Result>;
}

/** A build, and the calls that wait for it. */
export class Flight<Result = unknown> {
  /** Its result. */
  result!: Promise<Result>;
  readonly #waiting = new Set<{ listener: Progress | undefined }>();
  readonly #controller = new AbortController();
  /** Aborts when no call waits for the build any more. */
  readonly signal = this.#controller.signal;
  /** The time at which it last made progress. */
  progressedAt = performance.now();

  /** Reports progress to all waiting calls. */
  readonly onProgress: Progress = (loaded, total) => {
    this.progressedAt = performance.now();
    for (const { listener } of [...this.#waiting]) if (listener) tell(listener, loaded, total);
  };

  /** Adds a waiting call. The returned function removes it, with the reason if the call was aborted. */
  join(listener: Progress | undefined): (reason?: unknown) => void {
    const call = { listener };
    this.#waiting.add(call);
    return (reason) => {
      this.#waiting.delete(call);
      if (this.#waiting.size === 0 && reason !== undefined) this.#controller.abort(reason);
    };
  }
}

/**
 * Lets one of several concurrent calls for a value build it, in this tab and, by locks, across tabs.
 */
export class Flights<Result> {
  readonly #flying = new Map<string, Flight<Result>>();
  readonly #lockPrefix: string;
  readonly #acrossTabs: () => boolean;

  constructor(database: string, acrossTabs: () => boolean) {
    // Two databases must not share a lock, whatever they are called.
    this.#lockPrefix = `warmstart:${encodeURIComponent(database)}:build:`;
    this.#acrossTabs = acrossTabs;
  }

  /** Returns the wanted value: builds it, or waits for its builder. */
  async obtain(wanted: Wanted<Result>): Promise<Result> {
    const { id, signal } = wanted;
    signal?.throwIfAborted();
    const known = this.#flying.get(id);
    if (known) {
      try {
        return await this.#wait(known, wanted, wanted.waitMs);
      } catch (error) {
        if (error !== TIMED_OUT) throw error;
      }
    }
    const flight = new Flight<Result>();
    // A build beside one that timed out shares its result with no other call.
    flight.result = known ? this.#build(flight, wanted) : this.#buildWithLock(flight, wanted);
    if (!known) {
      const remove = (): void => void (this.#flying.get(id) === flight && this.#flying.delete(id));
      this.#flying.set(id, flight);
      flight.result.then(remove, remove);
      // A call after an abort starts a new build.
      flight.signal.addEventListener("abort", remove);
    }
    return this.#wait(flight, wanted, Infinity);
  }

  /**
   * Builds what is wanted with a lock that all tabs of an origin share, unless another tab has done so. After `waitMs`,
   * or where the browser has no locks, as on an insecure page, there is no lock: then every tab builds for itself.
   */
  async #buildWithLock(flight: Flight, wanted: Wanted<Result>): Promise<Result> {
    if (!this.#acrossTabs()) return this.#build(flight, wanted);
    const work = async (): Promise<Result> => {
      flight.signal.throwIfAborted();
      flight.progressedAt = performance.now();
      // Another tab may have stored the value after the look-up, before it released the lock.
      return (await wanted.look()) ?? this.#build(flight, wanted);
    };
    const { locks } = globalThis.navigator as { locks?: LockManager };
    // A longer timeout overflows 32 bits.
    const signal = AbortSignal.timeout(Math.min(wanted.waitMs, 2 ** 31 - 1));
    let working: Promise<Result> | undefined;
    try {
      await locks?.request(this.#lockPrefix + wanted.id, { signal }, () => (working = work()));
    } catch {
      // Either the work failed, and its promise rejects below, or the browser granted no lock.
    }
    return working ?? work();
  }

  #build(flight: Flight, wanted: Wanted<Result>): Promise<Result> {
    return unlessAborted(wanted.build(flight), flight.signal);
  }

  /** Waits for the end of a build, an abort of the call, or `waitMs` milliseconds without progress. */
  async #wait(
    flight: Flight<Result>,
    { onProgress, signal }: Wanted<Result>,
    waitMs: number,
  ): Promise<Result> {
    const leave = flight.join(onProgress);
    let watch: ReturnType<typeof setInterval> | undefined;
    const timeout = new Promise<never>((_, reject) => {
      const check = (): void => void (performance.now() - flight.progressedAt >= waitMs && reject(TIMED_OUT));
      if (waitMs < Infinity) watch = setInterval(check, Math.max(1, Math.min(CHECK_MS, waitMs)));
    });
    try {
      return await unlessAborted(Promise.race([flight.result, timeout]), signal);
    } finally {
      clearInterval(watch);
      leave(signal?.aborted ? signal.reason : undefined);
    }
  }
}

/** The interval at which a waiting call checks whether the build makes progress, in milliseconds. */
const CHECK_MS = 1000;
/** Ends a wait for a build that makes no progress. */
const TIMED_OUT = new Error("the build makes no progress");

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal?.removeEventListener("abort", stop));
  });
}
