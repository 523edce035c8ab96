import type { Cache as Warmstart } from "../cache.js";
import { WarmstartError } from "../errors.js";
import { pageInstead, transfer } from "../transfer.js";
import { absolute } from "../url.js";

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
  const keys = async (): Promise<string[]> => [
    ...new Set((await oldestFirst(cache)).map(nameOf).filter((name) => name !== undefined)),
  ];
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

/** One cache of a `CacheStorage`: entries whose keys begin with its name. */
class Named implements NamedCache {
  readonly #cache: Warmstart;
  readonly #prefix: string;

  constructor(cache: Warmstart, name: string) {
    this.#cache = cache;
    this.#prefix = `${PREFIX}${encodeURIComponent(name)}/`;
  }

  /**
   * Returns the stored response for `request`. Its body is read only when the caller reads it, and verified
   * while it streams.
   */
  async match(request: RequestInfo | URL, options?: CacheQueryOptions): Promise<Response | undefined> {
    const url = wanted(request, options);
    const response = url === undefined ? undefined : await this.#cache.get(this.#prefix + url, "response");
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
   * @throws TypeError as in the standard: for a method other than GET, a URL that is not http or https, a
   *   partial response (206), `Vary: *`, or a body that was already read
   */
  async put(request: RequestInfo | URL, response: Response): Promise<void> {
    const url = storable(request);
    if (response.status === 206) throw new TypeError("The response is partial (206); request the whole file.");
    if (/(^|,)\s*\*\s*(,|$)/.test(response.headers.get("vary") ?? ""))
      throw new TypeError("The response has Vary: *, so it cannot be stored; remove that header.");
    if (response.bodyUsed || response.body?.locked)
      throw new TypeError("The body was already read; store response.clone() first.");
    if (!response.ok || (isFile(url) && pageInstead(url, response)))
      return void response.body?.cancel().catch(() => undefined);
    await this.#cache.put(this.#prefix + url, response, { label: url });
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
    try {
      const { body, headers } = await transfer({ ...file, onProgress: () => undefined });
      await this.#cache.put(this.#prefix + url, body, { label: url, headers });
    } catch (error) {
      if (error instanceof WarmstartError) throw new TypeError(error.message, { cause: error });
      throw error;
    }
  }

  /** Removes what `request` matches. Resolves with whether there was anything. */
  async delete(request: RequestInfo | URL, options?: CacheQueryOptions): Promise<boolean> {
    const url = wanted(request, options);
    return url !== undefined && this.#cache.delete(this.#prefix + url);
  }

  /** Removes all entries. Resolves with whether there were any. */
  async clear(): Promise<boolean> {
    const urls = await this.#urls();
    return (await Promise.all(urls.map((url) => this.#cache.delete(this.#prefix + url)))).some(Boolean);
  }

  async #urls(): Promise<string[]> {
    const keys = (await oldestFirst(this.#cache)).filter((key) => key.startsWith(this.#prefix));
    return keys.map((key) => key.slice(this.#prefix.length));
  }
}

const PREFIX = "warmstart.cache/";

/** Returns the keys of all entries that are texts. */
async function oldestFirst(cache: Warmstart): Promise<string[]> {
  const entries = (await cache.entries()).sort((one, other) => Number(one.created) - Number(other.created));
  return entries.map(({ text }) => text).filter((text) => text !== undefined);
}

/** Returns the name of the cache that a key belongs to. */
function nameOf(key: string): string | undefined {
  const name = key.startsWith(PREFIX) ? /^[^/]*(?=\/)/.exec(key.slice(PREFIX.length))?.[0] : undefined;
  try {
    return name && decodeURIComponent(name);
  } catch {
    return undefined; // An entry of the caller's that only looks like one of a named cache.
  }
}

/** Returns the URL to look up, or `undefined` for a request that is never stored. */
function wanted(request: RequestInfo | URL, options: CacheQueryOptions = {}): string | undefined {
  if (options.ignoreSearch || options.ignoreMethod)
    throw new TypeError("ignoreSearch and ignoreMethod are not supported; pass the whole URL that was stored.");
  return request instanceof Request && request.method !== "GET" ? undefined : addressOf(request);
}

/** Returns the URL to store under. */
function storable(request: RequestInfo | URL): string {
  if (request instanceof Request && request.method !== "GET")
    throw new TypeError(`The method is ${request.method}; only responses to GET can be stored.`);
  const url = addressOf(request);
  if (!/^https?:/.test(url))
    throw new TypeError(`The URL is ${url}; only responses to http: and https: can be stored.`);
  return url;
}

function addressOf(request: RequestInfo | URL): string {
  const text = request instanceof Request ? request.url : String(request);
  const url = absolute(text);
  if (url === undefined)
    throw new TypeError(`"${text}" is not a URL; pass an absolute one, or one relative to the page.`);
  return url;
}

/** Whether the URL has a file extension. Service workers store pages under URLs without one. */
function isFile(url: string): boolean {
  return /\.\w+$/.test(new URL(url).pathname);
}
