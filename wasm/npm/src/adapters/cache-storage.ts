import type { Cache as Warmstart } from "../cache.js";
import { WarmstartError } from "../errors.js";
import { pageInstead, transfer } from "../transfer.js";
import { urlKey } from "../url.js";

/** What runtimes use of a `CacheStorage`. */
export interface NamedCaches extends Pick<CacheStorage, "delete" | "has" | "keys" | "match"> {
  /** Returns the cache of this name. It is listed once it has an entry. */
  open(name: string): Promise<NamedCache>;
}

/** What runtimes use of a cache of a `CacheStorage`. */
export type NamedCache = Pick<Cache, "add" | "delete" | "keys" | "match" | "put">;

/**
 * Adapts `cache` to a `CacheStorage`, for runtimes that use only `caches`, such as web-llm.
 *
 * Unlike the browser's own, it is bounded and verifies every response. It does not store opaque responses,
 * responses that are not ok, or HTML pages under the name of another kind of file: `put` still resolves, because
 * a cache may forget, while `add` rejects with a `TypeError`. `Vary` is ignored, except that `*` is refused as in
 * the standard. A stored response has status 200, and keeps the headers that describe its bytes.
 *
 * It lacks `addAll` and `matchAll`, and the options `ignoreSearch` and `ignoreMethod` are a `TypeError`.
 *
 * @example
 * ```ts
 * Object.defineProperty(globalThis, "caches", { value: asCacheStorage(await open({ name: "models" })) });
 * ```
 */
export function asCacheStorage(cache: Warmstart): NamedCaches {
  /** The names of the caches that have entries, in the order of their oldest entries. */
  const keys = async (): Promise<string[]> => [...new Set((await listed(cache)).map(({ name }) => name))];
  return {
    keys,
    open: async (name) => new Named(cache, name),
    has: async (name) => (await keys()).includes(String(name)),
    delete: (name) => new Named(cache, name).clear(),
    async match(request, options = {}) {
      const { cacheName } = options;
      for (const name of cacheName === undefined ? await keys() : [cacheName]) {
        const found = await new Named(cache, name).match(request, options);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

/** One cache of a `CacheStorage`: entries whose keys end with its name. */
class Named implements NamedCache {
  readonly #cache: Warmstart;
  readonly #name: string;

  constructor(cache: Warmstart, name: string) {
    this.#cache = cache;
    this.#name = String(name);
  }

  /**
   * Returns the stored response for `request`. Its body is read only when the caller reads it, and verified
   * while it streams.
   */
  async match(request: RequestInfo | URL, options?: CacheQueryOptions): Promise<Response | undefined> {
    const url = wanted(request, options);
    const response = url === undefined ? undefined : await this.#cache.get(this.#key(url), "response");
    return response && Object.defineProperty(response, "url", { value: url });
  }

  /** Lists the stored requests in the order of storing, without reading responses. */
  async keys(request?: RequestInfo | URL, options?: CacheQueryOptions): Promise<Request[]> {
    const urls = await this.#urls();
    const only = request === undefined ? urls : [wanted(request, options)];
    return urls.filter((url) => only.includes(url)).map((url) => new Request(url));
  }

  /**
   * Stores a response.
   *
   * @throws TypeError if the request is not a GET of `http:` or `https:`, the response is partial (206) or has
   *   `Vary: *`, or its body was already read
   */
  async put(request: RequestInfo | URL, response: Response): Promise<void> {
    const url = storable(request);
    if (/(^|,)\s*\*\s*(,|$)/.test(response.headers.get("vary") ?? ""))
      throw new TypeError("The response has Vary: *, so it cannot be stored; remove that header.");
    if (!response.ok || (isFile(url) && pageInstead(url, response)))
      return void response.body?.cancel().catch(() => undefined);
    await orTypeError(this.#cache.put(this.#key(url), response, { label: url }));
  }

  /**
   * Fetches and stores a file. Resumes an interrupted download.
   *
   * @throws TypeError if the status of the response is not 200, or it is an HTML page under the name of another
   *   kind of file
   */
  async add(address: RequestInfo | URL): Promise<void> {
    const url = storable(address);
    const request = new Request(address);
    const file = { cache: this.#cache, request, signal: request.signal, html: !isFile(url), size: undefined };
    const { body, headers } = await orTypeError(transfer({ ...file, onProgress: () => undefined }));
    await this.#cache.put(this.#key(url), body, { label: url, headers });
  }

  /** Removes what `request` matches. Resolves with whether there was anything. */
  async delete(request: RequestInfo | URL, options?: CacheQueryOptions): Promise<boolean> {
    const url = wanted(request, options);
    return url !== undefined && this.#cache.delete(this.#key(url));
  }

  /** Removes all entries. Resolves with whether there were any. */
  async clear(): Promise<boolean> {
    const urls = await this.#urls();
    return (await Promise.all(urls.map((url) => this.#cache.delete(this.#key(url))))).some(Boolean);
  }

  async #urls(): Promise<string[]> {
    return (await listed(this.#cache)).filter(({ name }) => name === this.#name).map(({ url }) => url);
  }

  /** A URL has no spaces, so one ends it. */
  #key(url: string): string {
    return `warmstart.cache ${url} ${this.#name}`;
  }
}

/** Lists the entries of all named caches, the oldest first. */
async function listed(cache: Warmstart): Promise<{ url: string; name: string }[]> {
  const entries = (await cache.entries()).sort((one, other) => Number(one.created) - Number(other.created));
  return entries.flatMap(({ text = "" }) => {
    const [, url, name] = /^warmstart\.cache (\S+) (.*)$/s.exec(text) ?? [];
    return url === undefined || name === undefined ? [] : [{ url, name }];
  });
}

/** Returns the URL to look up, or `undefined` for a request that is never stored. */
function wanted(request: RequestInfo | URL, options: CacheQueryOptions = {}): string | undefined {
  if (options.ignoreSearch || options.ignoreMethod)
    throw new TypeError("ignoreSearch and ignoreMethod are not supported; pass the whole URL that was stored.");
  const { url, method } = request instanceof Request ? request : new Request(request);
  return method === "GET" ? urlKey(url) : undefined;
}

/** Returns the URL to store under. */
function storable(request: RequestInfo | URL): string {
  const url = wanted(request);
  if (url === undefined || !/^https?:/.test(url))
    throw new TypeError("The response cannot be stored; pass one to a GET of http: or https:.");
  return url;
}

/** Rejects with a `TypeError` in place of the cache's own errors, as the standard has it. */
async function orTypeError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof WarmstartError ? new TypeError(error.message, { cause: error }) : error;
  }
}

/** Whether the URL has a file extension. Service workers store pages under URLs without one. */
function isFile(url: string): boolean {
  return /\.\w+$/.test(new URL(url).pathname);
}
