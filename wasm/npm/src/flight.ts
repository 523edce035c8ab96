import { tell } from "./listener.js";
import type { Release, TabLocks } from "./locks.js";
import type { Progress } from "./types.js";

/** A call that wants a value which is not stored. */
export interface Wanted<Result> {
  /** The name of the key. */
  name: string;
  /** The build that this call is made in, if it is. */
  within: Flight | undefined;
  /** The longest wait without a sign of life. */
  waitMs: number;
  signal: AbortSignal | undefined;
  onProgress: Progress | undefined;
  /** Looks for the value again: another tab may have stored it. */
  look: () => Promise<Result | undefined>;
  /** Builds and stores it. */
  build: (flight: Flight) => Promise<Result>;
}

/** What a call got, and whether another one made it. */
export interface Got<Result> {
  result: Result;
  shared: boolean;
}

/** A build, and the calls that wait for it. */
export class Flight {
  readonly name: string;
  /** The builds that this one waits for. */
  readonly needs = new Set<Flight>();
  readonly #listeners = new Set<Progress>();
  readonly #controller = new AbortController();
  #interested = 0;
  #alive = performance.now();

  constructor(name: string) {
    this.name = name;
  }

  /** Aborts when no call waits for the build any more. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** How long it has shown no sign of life, in milliseconds. */
  get silentMs(): number {
    return performance.now() - this.#alive;
  }

  /** Reports progress to all waiting calls. */
  readonly onProgress: Progress = (loaded, total) => {
    this.stir();
    for (const listener of [...this.#listeners]) tell(listener, loaded, total);
  };

  /** Shows a sign of life. */
  stir(): void {
    this.#alive = performance.now();
  }

  /** Adds a waiting call. The returned function removes it, with the reason if the call was aborted. */
  join(listener: Progress | undefined): (reason?: unknown) => void {
    this.#interested++;
    // A listener that is given twice is two listeners.
    const own: Progress | undefined = listener && ((loaded, total) => listener(loaded, total));
    if (own) this.#listeners.add(own);
    return (reason) => {
      if (own) this.#listeners.delete(own);
      if (--this.#interested === 0 && reason !== undefined) this.#controller.abort(reason);
    };
  }

  /** Whether this build waits, over any number of others, for `other`. */
  waitsFor(other: Flight, seen = new Set<Flight>()): boolean {
    if (this === other) return true;
    if (seen.has(this)) return false;
    seen.add(this);
    return [...this.needs].some((next) => next.waitsFor(other, seen));
  }
}

/**
 * Lets one of several concurrent calls for a value build it, in this tab and, by locks, across tabs.
 */
export class Flights<Result> {
  readonly #flying = new Map<string, { flight: Flight; landed: Promise<Got<Result>> }>();
  readonly #locks: TabLocks;
  readonly #acrossTabs: () => boolean;

  constructor(locks: TabLocks, acrossTabs: () => boolean) {
    this.#locks = locks;
    this.#acrossTabs = acrossTabs;
  }

  /** Returns the wanted value: builds it, or waits for its builder. */
  async obtain(wanted: Wanted<Result>): Promise<Got<Result>> {
    wanted.signal?.throwIfAborted();
    const known = this.#flying.get(wanted.name);
    // Waiting for a build that waits for this one would deadlock.
    if (known && wanted.within && known.flight.waitsFor(wanted.within)) return await this.#alone(wanted);

    const { flight, landed } = known ?? this.#takeOff(wanted);
    const leave = flight.join(wanted.onProgress);
    wanted.within?.needs.add(flight);
    try {
      const got = await this.#landing(flight, landed, wanted, known !== undefined);
      leave();
      if (got !== "alone") return known ? { ...got, shared: true } : got;
    } catch (error) {
      leave(wanted.signal?.aborted ? wanted.signal.reason : undefined);
      throw error;
    } finally {
      wanted.within?.needs.delete(flight);
    }
    return await this.#alone(wanted);
  }

  #takeOff(wanted: Wanted<Result>): { flight: Flight; landed: Promise<Got<Result>> } {
    const { name } = wanted;
    const flight = new Flight(name);
    const remove = (): void => {
      if (this.#flying.get(name)?.flight === flight) this.#flying.delete(name);
    };
    // A call after an abort starts a new build.
    flight.signal.addEventListener("abort", remove);
    const landed = this.#fly(flight, wanted).finally(remove);
    landed.catch(() => undefined);
    const entry = { flight, landed };
    this.#flying.set(name, entry);
    return entry;
  }

  /** Builds what is wanted, unless another tab does. */
  async #fly(flight: Flight, wanted: Wanted<Result>): Promise<Got<Result>> {
    const acrossTabs = this.#acrossTabs();
    const release = acrossTabs ? await this.#lock(flight, wanted) : undefined;
    try {
      flight.signal.throwIfAborted();
      flight.stir();
      // What another tab stored after this one had looked is there by now: its lock was let go after that.
      const found = acrossTabs ? await wanted.look() : undefined;
      if (found) return { result: found, shared: true };
      const built = wanted.build(flight);
      return { result: await unlessAborted(built, flight.signal), shared: false };
    } finally {
      release?.();
    }
  }

  /** Acquires the lock of the key; `undefined` on a timeout. */
  async #lock(flight: Flight, { name, waitMs }: Wanted<Result>): Promise<Release | undefined> {
    const timeout = new AbortController();
    const stop = (): void => timeout.abort();
    flight.signal.addEventListener("abort", stop);
    const late = setTimeout(stop, waitMs);
    try {
      return await this.#locks.take(name, timeout.signal);
    } finally {
      clearTimeout(late);
      flight.signal.removeEventListener("abort", stop);
    }
  }

  /** Waits for the end of a flight, an abort of the call or, if it only waits, its timeout. */
  async #landing(
    flight: Flight,
    landed: Promise<Got<Result>>,
    { signal, waitMs }: Wanted<Result>,
    waits: boolean,
  ): Promise<Got<Result> | "alone"> {
    let watch: ReturnType<typeof setInterval> | undefined;
    let stop = (): void => undefined;
    try {
      return await new Promise((resolve, reject) => {
        landed.then(resolve, reject);
        stop = () => reject(signal?.reason);
        signal?.addEventListener("abort", stop);
        if (!waits) return;
        const check = (): void => {
          if (flight.silentMs >= waitMs) resolve("alone");
        };
        watch = setInterval(check, Math.max(1, Math.min(CHECK_MS, waitMs)));
      });
    } finally {
      clearInterval(watch);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Builds without sharing the result. */
  async #alone(wanted: Wanted<Result>): Promise<Got<Result>> {
    const flight = new Flight(wanted.name);
    const leave = flight.join(wanted.onProgress);
    const stop = (): void => leave(wanted.signal?.reason);
    wanted.signal?.addEventListener("abort", stop);
    wanted.within?.needs.add(flight);
    try {
      wanted.signal?.throwIfAborted();
      return { result: await unlessAborted(wanted.build(flight), flight.signal), shared: false };
    } finally {
      wanted.within?.needs.delete(flight);
      wanted.signal?.removeEventListener("abort", stop);
    }
  }
}

/** The interval at which a waiting call looks whether the build still shows signs of life. */
const CHECK_MS = 1000;

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
