import type { Cache as Warmstart } from "../cache.js";
import { NamedCache } from "./named-cache.js";

/**
 * Adapts `cache` to a `CacheStorage`, for runtimes that use only `caches`, such as web-llm.
 *
 * Unlike the browser's own, it is bounded and verifies every response. It does not store opaque responses,
 * responses that are not ok, or HTML pages under the name of another kind of file: `put` still resolves, because
 * a cache may forget, while `add` rejects with a `TypeError`. `Vary` is ignored, except that `*` is refused as in
 * the standard. A stored response has status 200, and keeps the headers that describe its bytes.
 *
 * @example
 * ```ts
 * Object.defineProperty(globalThis, "caches", { value: asCacheStorage(await open({ name: "models" })) });
 * ```
 */
export function asCacheStorage(cache: Warmstart): CacheStorage {
  return new Storage(cache);
}

class Storage implements CacheStorage {
  readonly #cache: Warmstart;
  /** The names that this page has found in the index, or added to it. */
  readonly #known = new Set<string>();
  #changing: Promise<unknown> = Promise.resolve();

  constructor(cache: Warmstart) {
    this.#cache = cache;
  }

  /** Opens the cache of this name, or creates it. */
  async open(name: string): Promise<NamedCache> {
    const wanted = String(name);
    if (!this.#known.has(wanted)) {
      await this.#change((names) => (names.includes(wanted) ? names : [...names, wanted]));
      this.#known.add(wanted);
    }
    return new NamedCache(this.#cache, wanted);
  }

  /** Tells whether there is a cache of this name. */
  async has(name: string): Promise<boolean> {
    return (await this.keys()).includes(String(name));
  }

  /** Removes a cache and its entries. Resolves with whether there was one. */
  async delete(name: string): Promise<boolean> {
    const unwanted = String(name);
    const there = await this.has(unwanted);
    this.#known.delete(unwanted);
    await new NamedCache(this.#cache, unwanted).clear();
    await this.#change((names) => names.filter((each) => each !== unwanted));
    return there;
  }

  /** Lists the names of all caches, in the order of their creation. */
  async keys(): Promise<string[]> {
    await this.#changing;
    const names = new Set(await this.#index());
    // The index is an ordinary entry, and may be evicted before the entries of its caches.
    for (const { text } of await this.#cache.entries()) {
      const name = NamedCache.nameOf(text);
      if (name !== undefined) names.add(name);
    }
    return [...names];
  }

  /** Returns the first response of any cache, in the order of the caches' creation. */
  async match(
    request: RequestInfo | URL,
    options: MultiCacheQueryOptions = {},
  ): Promise<Response | undefined> {
    const { cacheName } = options;
    const names =
      cacheName === undefined ? await this.keys() : (await this.has(cacheName)) ? [cacheName] : [];
    for (const name of names) {
      const found = await new NamedCache(this.#cache, name).match(request, options);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async #index(): Promise<string[]> {
    try {
      const names: unknown = JSON.parse((await this.#cache.get(INDEX, "text")) ?? "[]");
      return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
    } catch {
      return [];
    }
  }

  /** Changes the index, one after another, in all tabs. */
  #change(change: (names: string[]) => string[]): Promise<void> {
    const run = async (): Promise<void> => {
      const names = await this.#index();
      const changed = change(names);
      if (changed !== names && changed.join("\n") !== names.join("\n")) {
        await this.#cache.put(INDEX, JSON.stringify(changed), {
          label: "names of caches",
          type: "application/json",
        });
      }
    };
    const { locks } = navigator as { locks?: LockManager };
    const locked = (): Promise<void> =>
      locks ? locks.request(`${INDEX} ${this.#cache.name}`, run).catch(run) : run();
    const changed = this.#changing.then(locked);
    this.#changing = changed.catch(() => undefined);
    return changed;
  }
}

const INDEX = "warmstart.caches";
