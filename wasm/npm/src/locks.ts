/** Releases a lock. */
export type Release = () => void;

/**
 * Locks that all tabs of an origin share. If the browser has none, as on an insecure page, nothing is locked
 * and every tab builds for itself.
 */
export class TabLocks {
  readonly #prefix: string;

  constructor(database: string) {
    // Two databases must not share a lock, whatever they are called.
    this.#prefix = `warmstart:${encodeURIComponent(database)}:build:`;
  }

  /** Takes the lock of `name`. After this many milliseconds, or when `signal` is aborted, there is none. */
  async take(name: string, signal: AbortSignal, waitMs: number): Promise<Release | undefined> {
    const timeout = new AbortController();
    const stop = (): void => timeout.abort();
    signal.addEventListener("abort", stop);
    // Timers are 32-bit numbers.
    const late = setTimeout(stop, Math.min(waitMs, 2 ** 31 - 1));
    try {
      return await new Promise((resolve, reject) => {
        const { locks } = globalThis.navigator as { locks?: LockManager };
        const held = (): Promise<void> => new Promise((release) => resolve(() => release()));
        if (locks === undefined) resolve(undefined);
        else locks.request(this.#prefix + name, { signal: timeout.signal }, held).catch(reject);
      });
    } catch {
      // If the browser fails to grant a lock, for any reason, there is no lock.
      return undefined;
    } finally {
      clearTimeout(late);
      signal.removeEventListener("abort", stop);
    }
  }
}
