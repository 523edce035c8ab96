import type { Cache } from "./cache.js";
import { invalid, WarmstartError } from "./errors.js";
import { hasDigest, parsedIntegrity } from "./integrity.js";
import type { KeyInput } from "./key.js";
import { tell } from "./listener.js";
import { transfer } from "./transfer.js";
import type { BuildContext, Formats, Progress } from "./types.js";
import { absolute } from "./url.js";

/** A file to download. */
export interface Shard {
  /** The URL. A relative one is resolved against the page's. */
  readonly url: string | URL;
  /** The key in the cache. Defaults to the absolute URL without the fragment. */
  readonly key?: KeyInput;
  /** The digest, as in HTML: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. */
  readonly integrity?: string;
  /** The length in bytes. If all files have one, the total is known from the start. */
  readonly size?: number;
  /** Headers to send, for example `authorization`. */
  readonly headers?: HeadersInit;
}

/** The progress of all files together. */
export interface DownloadProgress {
  /** Bytes that have arrived. */
  readonly loaded: number;
  /** Bytes of all files; `undefined` while the length of any file is unknown. */
  readonly total: number | undefined;
  /** The file that made progress. */
  readonly url: string;
}

/** The format of a downloaded file. Of a `"response"`, text and JSON can be read. */
export type FileFormat = "bytes" | "blob" | "response";

/** Options of {@link download}. */
export interface DownloadOptions<Format extends FileFormat = FileFormat> {
  /** The format of the files. `"bytes"` by default; `"blob"` and `"response"` do not load them into memory. */
  readonly as?: Format;
  /**
   * Receives the progress of any file. The browser reports exceptions of this function as uncaught; they do
   * not stop the download.
   */
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Stops the download. The next download resumes from what has arrived. */
  readonly signal?: AbortSignal | undefined;
  /** The number of files to download at a time. 4 by default. */
  readonly parallel?: number;
}

/**
 * Returns files from the cache, and downloads and stores the missing ones.
 *
 * Only a complete file with status 200 is stored: a server error, an HTML page in place of the file, a
 * truncated body or one with another digest is never cached. A network failure or a server error (5xx) is
 * retried twice. Partial files are kept in pieces of 8 MiB, and on failure and abort. The next attempt requests
 * only the rest, if the server identifies the version of the file by a strong `etag` or a modification date.
 * Two tabs that need the same file download it once.
 *
 * A digest needs the whole file, so a file with `integrity` is once in memory as a whole.
 *
 * @throws WarmstartError `http_error` with `status` and `url`, `network`, `truncated`, `unexpected_html`,
 *   `integrity`, or `invalid_argument`; on abort the reason of the signal. The first failure stops the other
 *   files.
 *
 * @example
 * ```ts
 * const shards = await download(cache, ["a.bin", "b.bin"], {
 *   as: "blob",
 *   onProgress: ({ loaded, total }) => (bar.value = loaded / (total ?? Infinity)),
 * });
 * ```
 */
export function download<Format extends FileFormat = "bytes">(
  cache: Cache,
  source: Source,
  options?: DownloadOptions<Format>,
): Promise<Formats[Format]>;
export function download<Format extends FileFormat = "bytes">(
  cache: Cache,
  sources: readonly Source[],
  options?: DownloadOptions<Format>,
): Promise<Formats[Format][]>;
export async function download(
  cache: Cache,
  sources: Source | readonly Source[],
  options: DownloadOptions = {},
): Promise<Formats[FileFormat] | Formats[FileFormat][]> {
  const { as = "bytes", parallel = 4, signal, onProgress } = options;
  if (!Number.isSafeInteger(parallel) || parallel < 1)
    throw invalid(`parallel is ${parallel}; pass a whole number from 1.`);
  const list = (Array.isArray(sources) ? (sources as readonly Source[]) : [sources as Source]).map(parsed);
  const values = new Array<Formats[FileFormat]>(list.length);
  const failed = new AbortController();
  const stop = AbortSignal.any(signal ? [signal, failed.signal] : [failed.signal]);
  const files = list.map(({ url, size }) => ({ url, loaded: 0, total: size }));
  const report = (index: number, loaded: number, total: number | undefined): void => {
    const file = files[index]!;
    file.loaded = loaded;
    file.total = total ?? file.total;
    // An unknown length makes the sum NaN.
    const sum = files.reduce((all, each) => all + Math.max(each.total ?? NaN, each.loaded), 0);
    const arrived = files.reduce((all, each) => all + each.loaded, 0);
    if (onProgress) tell(onProgress, { loaded: arrived, total: isNaN(sum) ? undefined : sum, url: file.url });
  };
  // The workers share it.
  const queue = list.entries();
  const work = async (): Promise<void> => {
    for (const [index, wanted] of queue) {
      stop.throwIfAborted();
      values[index] = await downloadOne(cache, wanted, as, stop, (...progress) => report(index, ...progress));
    }
  };
  const workers = Array.from({ length: Math.min(parallel, list.length) }, work);
  await Promise.all(workers.map((worker) => worker.catch((error: unknown) => failed.abort(error))));
  stop.throwIfAborted();
  return Array.isArray(sources) ? values : values[0]!;
}

/** A URL, or a {@link Shard} with more details. */
export type Source = string | URL | Shard;

/** The wait for another tab's download, whose progress is not visible here, before it counts as hung. */
const WAIT_MS = 10 * 60 * 1000;
/** The header that stores the verified digest. */
const CHECKED = "x-warmstart-integrity";

type Wanted = ReturnType<typeof parsed>;

function parsed(source: Source) {
  const shard: Shard = typeof source === "string" || source instanceof URL ? { url: source } : source;
  const url = shard?.url === undefined ? undefined : absolute(String(shard.url));
  if (url === undefined || !/^https?:/.test(url))
    throw invalid(`Cannot download "${String(shard?.url)}"; pass a relative URL, or one of http: or https:.`);
  const { size } = shard;
  if (size !== undefined && (!Number.isSafeInteger(size) || size < 0))
    throw invalid(`size is ${size}; pass a whole number of bytes from 0, or omit it.`);
  return {
    url,
    key: shard.key ?? url,
    integrity: shard.integrity === undefined ? undefined : parsedIntegrity(shard.integrity),
    size,
    request: new Request(url, { headers: new Headers(shard.headers) }),
  };
}

async function downloadOne(
  cache: Cache,
  { url, key, integrity, size, request }: Wanted,
  as: FileFormat,
  signal: AbortSignal,
  onProgress: Progress,
): Promise<Formats[FileFormat]> {
  if (integrity !== undefined) await removeOther(cache, key, integrity);
  // `build` adds those of the server; the cache reads them after that.
  const headers = new Headers(integrity ? { [CHECKED]: integrity } : {});
  const build = async (context: BuildContext): Promise<Blob> => {
    for (;;) {
      const file = await transfer({ ...context, cache, request, size, html: false });
      if (integrity === undefined || (await hasDigest(file.body, integrity))) {
        file.headers.forEach((text, name) => headers.set(name, text));
        return file.body;
      }
      // A part from an earlier visit may be another file's.
      if (file.resumed) continue;
      const message = `${url} does not have the digest ${integrity}; check whether the file has changed.`;
      throw new WarmstartError("integrity", message, { url });
    }
  };
  const value = await cache.getOrCreate(key, build, { as, signal, headers, onProgress, waitMs: WAIT_MS, label: url });
  const told = value instanceof Response ? value.headers.get("content-length") : undefined;
  const length = told ? Number(told) : value instanceof Blob ? value.size : (value as Uint8Array).length;
  onProgress(length, length);
  return value;
}

/** Removes the stored file if its digest differs. A file whose digest was verified at storing is not read. */
async function removeOther(cache: Cache, key: KeyInput, integrity: string): Promise<void> {
  if (!(await cache.has(key))) return;
  const kept = await cache.get(key, "response");
  if (kept === undefined || kept.headers.get(CHECKED) === integrity) return;
  const blob = await cache.get(key, "blob");
  if (blob !== undefined && !(await hasDigest(blob, integrity))) await cache.delete(key);
}
