/** Releases a lock. */
export type Release = () => void;

/**
 * Locks that all tabs of an origin share. If the browser has none, as on an insecure page, nothing is locked
 * and every tab builds for itself.
 *
 * Besides the lock of the key that it builds, a build that needs another key holds a marker that says so.
 * From the markers, every tab detects whether waiting would deadlock.
 */
export class TabLocks {
  readonly #prefix: string;

  constructor(database: string) {
    // Two databases must not share a lock, whatever they are called.
    this.#prefix = `warmstart:${encodeURIComponent(database)}:`;
  }

  /** Takes the lock of `name` if it is free. */
  tryLock(name: string): Promise<Release | "taken" | undefined> {
    return hold(this.#lock(name), { ifAvailable: true });
  }

  /** Waits for the lock of `name` until `signal` is aborted; then there is none. */
  async wait(name: string, signal: AbortSignal): Promise<Release | undefined> {
    const got = await hold(this.#lock(name), { signal });
    return got === "taken" ? undefined : got;
  }

  /** Tells all tabs that the build of `from` needs `to`. */
  async mark(from: string, to: string): Promise<Release> {
    const got = await hold(`${this.#prefix}needs:${from}:${to}`, { mode: "shared" });
    return typeof got === "function" ? got : () => undefined;
  }

  /** Whether `wanted` is, over any number of builds in any tabs, waiting for `builder`. */
  async closesCircle(builder: string, wanted: string): Promise<boolean> {
    const needs = await this.#needs();
    const seen = new Set<string>();
    const open = [wanted];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      if (at === builder) return true;
      if (seen.has(at)) continue;
      seen.add(at);
      open.push(...(needs.get(at) ?? []));
    }
    return false;
  }

  async #needs(): Promise<Map<string, string[]>> {
    const needs = new Map<string, string[]>();
    const prefix = `${this.#prefix}needs:`;
    try {
      const { held = [] } = await navigator.locks.query();
      for (const { name = "" } of held) {
        if (!name.startsWith(prefix)) continue;
        const [from = "", to = ""] = name.slice(prefix.length).split(":");
        needs.set(from, [...(needs.get(from) ?? []), to]);
      }
    } catch {
      // Without locks there are no markers, but waits are bounded anyway.
    }
    return needs;
  }

  #lock(name: string): string {
    return `${this.#prefix}build:${name}`;
  }
}

/**
 * Holds a lock until it is released. If the browser fails to grant a lock, for any reason, there is no lock.
 */
function hold(name: string, options: LockOptions): Promise<Release | "taken" | undefined> {
  const locks = (globalThis.navigator as Navigator | undefined)?.locks;
  if (!locks) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    try {
      locks
        .request(name, options, (lock) => {
          if (lock === null) return resolve("taken");
          return new Promise<void>((release) => resolve(() => release()));
        })
        .catch(() => resolve(undefined));
    } catch {
      resolve(undefined);
    }
  });
}
