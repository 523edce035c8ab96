import type { Cache } from "./cache.js";
import { invalid, WarmstartError } from "./errors.js";
import { Integrity } from "./integrity.js";
import type { KeyInput } from "./key.js";
import { tell } from "./listener.js";
import { transfer, type Transferred } from "./transfer.js";
import type { As, CreateOptions, Formats } from "./types.js";
import { absolute } from "./url.js";

/** A file to download, and what is known of it. */
export interface Shard {
  /** Its address. A relative one counts from the page. */
  readonly url: string | URL;
  /** What it is kept under; the absolute address without the fragment if left out. */
  readonly key?: KeyInput;
  /** Its digest, as HTML has it: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. */
  readonly integrity?: string;
  /** Its length in bytes. With it, the total of all files is known from the start. */
  readonly size?: number;
  /** Headers to send, for example `authorization`. */
  readonly headers?: HeadersInit;
  /**
   * `"html"` where a page is what is wanted. Otherwise a page is an error, unless the address ends in
   * `.html`.
   */
  readonly accept?: "html";
}

/** How far all files together are. */
export interface DownloadProgress {
  /** Bytes that are here. */
  readonly loaded: number;
  /** Bytes of all files; `undefined` while one of them has not told its length. */
  readonly total: number | undefined;
  /** The file that made progress. */
  readonly url: string;
}

/** How {@link download} works. */
export interface DownloadOptions<Format extends As = As> {
  /**
   * How the files are handed out: `"bytes"` if left out. `"blob"` and `"response"` take no memory for the
   * bytes.
   */
  readonly as?: Format;
  /**
   * Is told of progress of any file. What it throws is reported as that of an event's listener is, and ends
   * nothing.
   */
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Stops it. What has arrived is kept, and the next download goes on from there. */
  readonly signal?: AbortSignal | undefined;
  /** How many files come at a time: 4 if left out. */
  readonly parallel?: number;
}

/**
 * Gets files from the cache, and from the network what the cache does not have.
 *
 * Only a whole file is stored, and only one that is answered with status 200: an error of the server, a page
 * of HTML in place of the file, a body that ends early or one with another digest is never cached. A network
 * failure or an error of the server (5xx) is tried again, twice. What arrived of a file is kept in pieces of
 * 8 MiB, and on failure and abort. The next try asks for the rest only, if the server names its version by a
 * strong `etag` or a date of modification. Two tabs that want the same file download it once.
 *
 * A digest can be computed of a whole file only. So a file with `integrity` is once in memory as a whole.
 *
 * @throws WarmstartError `http_error` with `status` and `url`, `network`, `truncated`, `unexpected_html`,
 *   `integrity`, or `invalid_argument`; on abort the reason of the signal. The first failure ends the other
 * files.
 *
 * @example
 * ```ts
 * const shards = await download(cache, ["a.bin", "b.bin"], {
 *   as: "blob",
 *   onProgress: ({ loaded, total }) => (bar.value = loaded / (total ?? Infinity)),
 * });
 * ```
 */
export function download(
  cache: Cache,
  source: Source,
  options?: DownloadOptions<"bytes">,
): Promise<Formats["bytes"]>;
export function download(
  cache: Cache,
  sources: readonly Source[],
  options?: DownloadOptions<"bytes">,
): Promise<Formats["bytes"][]>;
export function download<Format extends As>(
  cache: Cache,
  source: Source,
  options: DownloadOptions<Format>,
): Promise<Formats[Format]>;
export function download<Format extends As>(
  cache: Cache,
  sources: readonly Source[],
  options: DownloadOptions<Format>,
): Promise<Formats[Format][]>;
export async function download(
  cache: Cache,
  sources: Source | readonly Source[],
  options: DownloadOptions = {},
): Promise<Formats[As] | Formats[As][]> {
  const { as = "bytes", parallel = 4, signal, onProgress } = options;
  if (!Number.isSafeInteger(parallel) || parallel < 1)
    throw invalid(`parallel is ${parallel}; give a whole number from 1.`);
  const list = (Array.isArray(sources) ? (sources as readonly Source[]) : [sources as Source]).map(parsed);
  const values = new Array<Formats[As]>(list.length);
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  const sum = new Sum(list, onProgress);
  const queue = [...list.entries()];
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      stop.signal.throwIfAborted();
      const [index, wanted] = next;
      values[index] = await one(cache, wanted, as, stop.signal, (loaded, total) =>
        sum.set(index, loaded, total),
      );
    }
  };
  const workers = Array.from({ length: Math.min(parallel, list.length) }, work);
  try {
    await Promise.all(workers);
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled(workers);
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
  return Array.isArray(sources) ? values : (values[0] as Formats[As]);
}

/** An address, or an address and more. */
export type Source = string | URL | Shard;

/** Another tab that downloads shows no progress here. Only after so long is it taken for one that hangs. */
const WAIT_MS = 10 * 60 * 1000;
/** The header under which the digest that was checked is kept. */
const CHECKED = "x-warmstart-integrity";

interface Wanted {
  readonly url: string;
  readonly key: KeyInput;
  readonly integrity: Integrity | undefined;
  readonly size: number | undefined;
  readonly headers: Headers;
  readonly html: boolean;
}

function parsed(source: Source): Wanted {
  const shard: Shard = typeof source === "string" || source instanceof URL ? { url: source } : source;
  const url = shard?.url === undefined ? undefined : absolute(String(shard.url));
  if (url === undefined || !/^https?:/.test(url)) {
    throw invalid(
      `Cannot download "${String(shard?.url)}": give an address that begins with http: or https:, or a relative one.`,
    );
  }
  const { size } = shard;
  if (size !== undefined && (!Number.isSafeInteger(size) || size < 0))
    throw invalid(`size is ${size}; give bytes, or leave it out.`);
  return {
    url,
    key: shard.key ?? url,
    integrity: shard.integrity === undefined ? undefined : new Integrity(shard.integrity),
    size,
    headers: new Headers(shard.headers),
    html: shard.accept === "html",
  };
}

async function one(
  cache: Cache,
  wanted: Wanted,
  as: As,
  signal: AbortSignal,
  onProgress: (loaded: number, total?: number) => void,
): Promise<Formats[As]> {
  const { integrity } = wanted;
  if (integrity !== undefined) await removeOther(cache, wanted, integrity);
  // The headers are known when the file is here, which is before they are read.
  const headers = new Headers(integrity && { [CHECKED]: String(integrity) });
  const options: CreateOptions = { signal, headers, onProgress, waitMs: WAIT_MS, label: wanted.url };
  // JSON is parsed here, since its length is told as well.
  const format = as === "json" ? "text" : as;
  const value = await cache.getOrCreate(
    wanted.key,
    async (context) => {
      const transferred = await checked(cache, wanted, context.signal, context.onProgress);
      transferred.headers.forEach((text, name) => headers.set(name, text));
      return transferred.body;
    },
    { ...options, as: format },
  );
  const length = lengthOf(value);
  onProgress(length, length);
  if (as !== "json") return value;
  try {
    return JSON.parse(value as string) as unknown;
  } catch (cause) {
    throw invalid(`${wanted.url} is not JSON: ${String(cause)}`);
  }
}

/**
 * Brings the file here and compares its digest. A part from an earlier visit is given up if it does not fit.
 */
async function checked(
  cache: Cache,
  wanted: Wanted,
  signal: AbortSignal,
  onProgress: (loaded: number, total?: number) => void,
): Promise<Transferred> {
  const { url, integrity, size, html } = wanted;
  const request = new Request(url, { headers: wanted.headers });
  for (;;) {
    const transferred = await transfer({ cache, request, signal, size, html, onProgress });
    if (integrity === undefined || (await integrity.matches(transferred.body))) return transferred;
    if (!transferred.resumed) {
      const message = `${url} does not have the digest ${integrity}: was it changed since the digest was taken?`;
      throw new WarmstartError("integrity", message, { url });
    }
  }
}

/**
 * Removes what is kept under the key if it has another digest. What was checked when it was stored is not
 * read.
 */
async function removeOther(cache: Cache, { key }: Wanted, integrity: Integrity): Promise<void> {
  if (!(await cache.has(key))) return;
  const kept = await cache.get(key, "response");
  if (kept === undefined || kept.headers.get(CHECKED) === String(integrity)) return;
  const blob = await cache.get(key, "blob");
  if (blob !== undefined && !(await integrity.matches(blob))) await cache.delete(key);
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength;
  if (value instanceof Blob) return value.size;
  if (value instanceof Response) return Number(value.headers.get("content-length"));
  return new Blob([String(value)]).size;
}

/** Adds up how far the files are. */
class Sum {
  readonly #files: { readonly url: string; loaded: number; total: number | undefined }[];
  readonly #onProgress: DownloadOptions["onProgress"];

  constructor(list: readonly Wanted[], onProgress: DownloadOptions["onProgress"]) {
    this.#files = list.map(({ url, size }) => ({ url, loaded: 0, total: size }));
    this.#onProgress = onProgress;
  }

  set(index: number, loaded: number, total: number | undefined): void {
    const file = this.#files[index];
    if (file === undefined) return;
    file.loaded = loaded;
    file.total = total ?? file.total;
    if (this.#onProgress === undefined) return;
    let [all, here]: [number | undefined, number] = [0, 0];
    for (const each of this.#files) {
      here += each.loaded;
      all =
        all === undefined || each.total === undefined ? undefined : all + Math.max(each.total, each.loaded);
    }
    tell(this.#onProgress, { loaded: here, total: all, url: file.url });
  }
}
