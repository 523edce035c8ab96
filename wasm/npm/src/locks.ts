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

  /** Takes the lock of `name`, or waits for it until `signal` is aborted; then there is none. */
  take(name: string, signal: AbortSignal): Promise<Release | undefined> {
    return new Promise((resolve) => {
      const locks = (globalThis.navigator as Navigator | undefined)?.locks;
      const held = (): Promise<void> => new Promise((release) => resolve(() => release()));
      // If the browser fails to grant a lock, for any reason, there is no lock.
      const request = async (): Promise<void> => locks?.request(this.#prefix + name, { signal }, held);
      request().then(() => resolve(undefined), () => resolve(undefined));
    });
  }
}
