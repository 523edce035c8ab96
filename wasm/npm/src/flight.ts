import { tell } from "./listener.js";
import type { Progress } from "./types.js";

/** A call that wants a value which is not stored. */
export interface Wanted<Result> {
  /** The name of the key. */
  name: string;
  /** The longest wait without a sign of life. */
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
  landed!: Promise<Result>;
  readonly #waiting = new Set<{ listener: Progress | undefined }>();
  readonly #controller = new AbortController();
  /** Aborts when no call waits for the build any more. */
  readonly signal = this.#controller.signal;
  /** The time of its last sign of life. */
  alive = performance.now();

  /** Reports progress to all waiting calls. */
  readonly onProgress: Progress = (loaded, total) => {
    this.alive = performance.now();
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
    const { name, signal } = wanted;
    signal?.throwIfAborted();
    const known = this.#flying.get(name);
    if (known) {
      try {
        return await this.#landing(known, wanted, wanted.waitMs);
      } catch (error) {
        if (error !== SILENT) throw error;
      }
    }
    const flight = new Flight<Result>();
    // Beside a build that is not waited for, this one shares its result with no other call.
    flight.landed = known ? this.#build(flight, wanted) : this.#fly(flight, wanted);
    if (!known) {
      const remove = (): void => void (this.#flying.get(name) === flight && this.#flying.delete(name));
      this.#flying.set(name, flight);
      flight.landed.then(remove, remove);
      // A call after an abort starts a new build.
      flight.signal.addEventListener("abort", remove);
    }
    return this.#landing(flight, wanted, Infinity);
  }

  /**
   * Builds what is wanted with a lock that all tabs of an origin share, unless another tab has done so. After `waitMs`,
   * or where the browser has no locks, as on an insecure page, there is no lock: then every tab builds for itself.
   */
  async #fly(flight: Flight, wanted: Wanted<Result>): Promise<Result> {
    if (!this.#acrossTabs()) return this.#build(flight, wanted);
    const work = async (): Promise<Result> => {
      flight.signal.throwIfAborted();
      flight.alive = performance.now();
      // What another tab stored after this one had looked is there by now: its lock was let go after that.
      return (await wanted.look()) ?? this.#build(flight, wanted);
    };
    const { locks } = globalThis.navigator as { locks?: LockManager };
    // Timers are 32-bit numbers.
    const signal = AbortSignal.timeout(Math.min(wanted.waitMs, 2 ** 31 - 1));
    let working: Promise<Result> | undefined;
    try {
      await locks?.request(this.#lockPrefix + wanted.name, { signal }, () => (working = work()));
    } catch {
      // The work has failed, which its own promise says; or the browser grants no lock, for any reason.
    }
    return working ?? work();
  }

  #build(flight: Flight, wanted: Wanted<Result>): Promise<Result> {
    return unlessAborted(wanted.build(flight), flight.signal);
  }

  /** Waits for the end of a flight, an abort of the call, or a silence of this many milliseconds. */
  async #landing(
    flight: Flight<Result>,
    { onProgress, signal }: Wanted<Result>,
    waitMs: number,
  ): Promise<Result> {
    const leave = flight.join(onProgress);
    let watch: ReturnType<typeof setInterval> | undefined;
    const silence = new Promise<never>((_, reject) => {
      const check = (): void => void (performance.now() - flight.alive >= waitMs && reject(SILENT));
      if (waitMs < Infinity) watch = setInterval(check, Math.max(1, Math.min(CHECK_MS, waitMs)));
    });
    try {
      return await unlessAborted(Promise.race([flight.landed, silence]), signal);
    } finally {
      clearInterval(watch);
      leave(signal?.aborted ? signal.reason : undefined);
    }
  }
}

/** The interval at which a waiting call looks whether the build still shows signs of life. */
const CHECK_MS = 1000;
/** Ends a wait for a build that shows none. */
const SILENT = new Error("the build is silent");

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal?.removeEventListener("abort", stop));
  });
}
