import type { Cache as Warmstart } from "../cache.js";
import { WarmstartError } from "../errors.js";
import { refusePage, transfer, type Transferred } from "../transfer.js";
import { absolute } from "../url.js";

/** One cache of a `CacheStorage`: the standard's `Cache` over entries whose keys begin with its name. */
export class NamedCache implements Cache {
  readonly #cache: Warmstart;
  readonly #prefix: string;

  constructor(cache: Warmstart, name: string) {
    this.#cache = cache;
    this.#prefix = `${PREFIX}${encodeURIComponent(name)}/`;
  }

  /** Returns the name of the cache that a key belongs to. */
  static nameOf(key: string | undefined): string | undefined {
    const found = key?.startsWith(PREFIX) ? /^([^/]*)\//.exec(key.slice(PREFIX.length)) : null;
    try {
      return found ? decodeURIComponent(found[1] as string) : undefined;
    } catch {
      return undefined; // An entry of the caller's that only looks like one of a named cache.
    }
  }

  /**
   * Returns the stored response for `request`. Its body is read only when the caller reads it, and verified
   * while it streams.
   */
  async match(request: RequestInfo | URL, options: CacheQueryOptions = {}): Promise<Response | undefined> {
    const url = wanted(request, options);
    if (url === undefined) return undefined;
    const found = await this.#answer(url);
    if (found !== undefined || !options.ignoreSearch) return found;
    const [first] = await this.#urls(url, options);
    return first === undefined ? undefined : this.#answer(first);
  }

  /** Returns all responses that `request` matches, or all responses. */
  async matchAll(request?: RequestInfo | URL, options: CacheQueryOptions = {}): Promise<Response[]> {
    const urls = await this.#matching(request, options);
    const found = await Promise.all(urls.map((url) => this.#answer(url)));
    return found.filter((response) => response !== undefined);
  }

  /** Lists the stored requests in the order of storing, without reading responses. */
  async keys(request?: RequestInfo | URL, options: CacheQueryOptions = {}): Promise<Request[]> {
    return (await this.#matching(request, options)).map((url) => new Request(url));
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
    if (!response.ok || isPageInstead(url, response))
      return void response.body?.cancel().catch(() => undefined);
    await this.#cache.put(this.#prefix + url, response, { label: url });
  }

  /** Fetches and stores a file. Resumes an interrupted download. */
  async add(request: RequestInfo | URL): Promise<void> {
    await this.addAll([request]);
  }

  /**
   * Fetches and stores several files, or none if one fails.
   *
   * @throws TypeError if the status of a response is not 200, or it is an HTML page under the name of another
   *   kind of file
   */
  async addAll(requests: Iterable<RequestInfo | URL>): Promise<void> {
    const all = Array.from(requests, (request) => ({ request, url: storable(request) }));
    const answers = await Promise.all(all.map(({ request, url }) => this.#fetch(request, url)));
    await Promise.all(
      answers.map(({ url, body, headers }) =>
        this.#cache.put(this.#prefix + url, body, { label: url, headers }),
      ),
    );
  }

  /** Removes what `request` matches. Resolves with whether there was anything. */
  async delete(request: RequestInfo | URL, options: CacheQueryOptions = {}): Promise<boolean> {
    const url = wanted(request, options);
    if (url === undefined) return false;
    const urls = options.ignoreSearch ? await this.#urls(url, options) : [url];
    return (await Promise.all(urls.map((each) => this.#cache.delete(this.#prefix + each)))).some(Boolean);
  }

  /** Removes all entries. */
  async clear(): Promise<void> {
    await Promise.all((await this.#urls()).map((url) => this.#cache.delete(this.#prefix + url)));
  }

  async #answer(url: string): Promise<Response | undefined> {
    const response = await this.#cache.get(this.#prefix + url, "response");
    return response && Object.defineProperty(response, "url", { value: url });
  }

  async #fetch(given: RequestInfo | URL, url: string): Promise<Transferred & { url: string }> {
    const request = new Request(given instanceof URL ? given.href : given);
    const html = !isFile(url);
    try {
      const wanted = { cache: this.#cache, request, signal: request.signal, html, size: undefined };
      return { url, ...(await transfer({ ...wanted, onProgress: () => undefined })) };
    } catch (error) {
      if (error instanceof WarmstartError) throw new TypeError(error.message, { cause: error });
      throw error;
    }
  }

  async #matching(request: RequestInfo | URL | undefined, options: CacheQueryOptions): Promise<string[]> {
    if (request === undefined) return this.#urls();
    const url = wanted(request, options);
    if (url === undefined) return [];
    if (options.ignoreSearch) return this.#urls(url, options);
    return (await this.#cache.has(this.#prefix + url)) ? [url] : [];
  }

  /**
   * Lists the stored URLs, oldest first: all, or those that equal `like` except for the parts that the options
   * ignore.
   */
  async #urls(like?: string, { ignoreSearch = false }: CacheQueryOptions = {}): Promise<string[]> {
    const entries = (await this.#cache.entries()).filter(({ text }) => text?.startsWith(this.#prefix));
    const urls = entries
      .sort((one, other) => one.created.getTime() - other.created.getTime())
      .map(({ text }) => (text as string).slice(this.#prefix.length));
    if (like === undefined) return urls;
    const shown = ignoreSearch ? withoutSearch : (url: string) => url;
    return urls.filter((url) => shown(url) === shown(like));
  }
}

const PREFIX = "warmstart.cache/";

/** Returns the URL to look up, or `undefined` for a request that is never stored. */
function wanted(request: RequestInfo | URL, { ignoreMethod = false }: CacheQueryOptions): string | undefined {
  if (request instanceof Request && request.method !== "GET" && !ignoreMethod) return undefined;
  return addressOf(request);
}

/** Returns the URL to store under. */
function storable(request: RequestInfo | URL): string {
  if (request instanceof Request && request.method !== "GET") {
    throw new TypeError(`The method is ${request.method}; only responses to GET can be stored.`);
  }
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

function withoutSearch(url: string): string {
  return url.replace(/\?.*$/s, "");
}

/** Whether the URL has a file extension. Service workers store pages under URLs without one. */
function isFile(url: string): boolean {
  return /\.\w+$/.test(new URL(url).pathname);
}

function isPageInstead(url: string, response: Response): boolean {
  if (!isFile(url)) return false;
  try {
    refusePage(url, response);
    return false;
  } catch {
    return true;
  }
}
