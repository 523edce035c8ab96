import type { Cache } from "./cache.js";
import { WarmstartError } from "./errors.js";
import { isResumable, type PartialFile, Parts, type Validator } from "./parts.js";

/** A file to download. */
export interface Transfer {
  readonly cache: Cache;
  /** The GET request. */
  readonly request: Request;
  readonly signal: AbortSignal;
  /** The length that the file must have, in bytes, if the caller knows it. */
  readonly size: number | undefined;
  /** Whether an HTML page is accepted. */
  readonly html: boolean;
  /** Receives the bytes that have arrived, and those of the whole file if known. */
  readonly onProgress: (loaded: number, total: number | undefined) => void;
}

/** A completely downloaded file. */
export interface Transferred {
  readonly body: Blob;
  /** The headers to store: type, length, version. */
  readonly headers: Headers;
  /** Whether the download was resumed. */
  readonly resumed: boolean;
}

/**
 * Downloads a file, and resumes an earlier download if the server allows.
 *
 * Retries network failures and server errors (5xx) twice. After a failure or an abort, the partial file is kept.
 */
export async function transfer(wanted: Transfer): Promise<Transferred> {
  const parts = await Parts.load(wanted.cache, wanted.request.url);
  const resumed = parts.length > 0;
  let failures = 0;
  let farthest = parts.length;
  for (;;) {
    try {
      wanted.signal.throwIfAborted();
      const headers = await round(wanted, parts);
      // The pieces are removed before the whole file is stored: both together would need twice the space, and
      // would evict other entries.
      await parts.drop();
      return { body: parts.blob(headers.get("content-type") ?? ""), headers, resumed };
    } catch (error) {
      // A long download over a bad connection continues as long as it makes progress.
      if (parts.length >= farthest + PIECE / 8) failures = 0;
      farthest = Math.max(farthest, parts.length);
      const wait = wanted.signal.aborted ? undefined : waitBeforeRetry(error, ++failures);
      if (wait === undefined) {
        parts.keep();
        await parts.saved();
        if (wanted.signal.aborted) throw wanted.signal.reason;
        throw error instanceof Retryable ? error.error : error;
      }
      await sleep(wait, wanted.signal).catch(() => undefined);
    }
  }
}

/** The smallest piece that is stored while more data arrives, in bytes. */
const PIECE = 8 * 1024 * 1024;
/** The number of attempts without progress before a transfer fails. */
const TRIES = 3;

/** A failure that a retry may avoid. */
class Retryable extends Error {
  readonly error: WarmstartError;
  /** The delay before the next attempt, in milliseconds, if the server requests one. */
  readonly waitMs: number | undefined;

  constructor(error: WarmstartError, waitMs?: number) {
    super(error.message);
    this.error = error;
    this.waitMs = waitMs;
  }
}

/** Requests the missing part once, and reads it. Returns the headers to store when the file is complete. */
async function round(wanted: Transfer, parts: Parts): Promise<Headers> {
  const { request } = wanted;
  const { url } = request;
  const about = parts.about;
  if (about !== undefined) {
    const isWhole = parts.length === about.total && parts.length === (wanted.size ?? about.total);
    if (isWhole) return keptHeaders(about, parts.length);
    if (!isResumable(about) || parts.length >= (about.total ?? Infinity)) parts.restart();
  }
  const from = parts.length;
  const response = await ask(wanted, from, parts.about);
  if (from > 0 && (response.status === 206 || response.status === 412 || response.status === 416)) {
    if (response.status !== 206 || !continues(response, from, parts.about as PartialFile)) {
      await response.body?.cancel().catch(() => undefined);
      parts.restart();
      return round(wanted, parts);
    }
  } else {
    await refuse(response, wanted);
    parts.begin(aboutOf(response));
  }
  const now = parts.about as PartialFile;
  const expected =
    now.total ?? (response.status === 206 ? rangeTotal(response, parts.length) : undefined) ?? wanted.size;
  if (wanted.size !== undefined && expected !== wanted.size) {
    await response.body?.cancel().catch(() => undefined);
    throw wrongSize(parts, expected ?? 0, wanted);
  }
  wanted.onProgress(parts.length, expected ?? now.told);
  await read(response, parts, expected, wanted);
  if (expected !== undefined && parts.length < expected) {
    const message = `${url} ended after ${parts.length} of ${expected} bytes; try again to resume.`;
    throw new Retryable(new WarmstartError("truncated", message, { url }));
  }
  if (expected !== undefined && parts.length > expected) throw wrongSize(parts, parts.length, wanted);
  return keptHeaders(now, parts.length);
}

async function ask(wanted: Transfer, from: number, about: Validator | undefined): Promise<Response> {
  const { request, signal } = wanted;
  const headers = new Headers(request.headers);
  if (from > 0) {
    headers.set("range", `bytes=${from}-`);
    // For another origin, If-Range would need a CORS preflight, so the version in the response is compared
    // instead.
    if (isSameOrigin(request.url)) headers.set("if-range", about?.etag ?? about?.modified ?? "");
  }
  try {
    return await fetch(
      new Request(request, { headers, signal, ...(from > 0 ? { cache: "no-store" as const } : {}) }),
    );
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    const message = `${request.url} cannot be reached; check the network and the server's CORS headers.`;
    throw new Retryable(new WarmstartError("network", message, { cause, url: request.url }));
  }
}

/** Reads the body into pieces. They include all bytes that arrived before a failure. */
async function read(
  response: Response,
  parts: Parts,
  expected: number | undefined,
  { request: { url }, signal, onProgress }: Transfer,
): Promise<void> {
  const total = expected ?? parts.about?.told;
  let chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const seal = (): void => {
    // A complete file is stored as a whole.
    const keep = size >= PIECE && parts.length + size !== expected;
    if (size > 0) parts.add(new Blob(chunks), keep);
    chunks = [];
    size = 0;
  };
  const reader = response.body?.getReader();
  try {
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
      chunks.push(next.value);
      size += next.value.byteLength;
      onProgress(parts.length + size, total);
      if (size >= PIECE) seal();
    }
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new Retryable(
      new WarmstartError("truncated", `The connection for ${url} broke; try again to resume.`, { cause, url }),
    );
  } finally {
    seal();
  }
}

/** Throws unless the response is the whole file. */
async function refuse(response: Response, { request: { url }, html }: Transfer): Promise<void> {
  const { status } = response;
  try {
    if (status === 200) return html ? undefined : refusePage(url, response);
    const message = `The server responded to ${url} with status ${status}; check the URL, or try later.`;
    const error = new WarmstartError("http_error", message, { status, url });
    if (status < 500) throw error;
    const seconds = Number(response.headers.get("retry-after") ?? "x");
    throw new Retryable(error, Number.isFinite(seconds) ? Math.min(seconds, 10) * 1000 : undefined);
  } catch (error) {
    await response.body?.cancel().catch(() => undefined);
    throw error;
  }
}

/**
 * Throws if a response is an HTML page although the name of the file is not that of one.
 *
 * @internal
 */
export function refusePage(url: string, { headers, status }: Response): void {
  const isPage = /^\s*(text\/html|application\/xhtml\+xml)\s*(;|$)/i.test(headers.get("content-type") ?? "");
  if (!isPage || /\.x?html?$/i.test(url.replace(/[?#].*$/s, ""))) return;
  const message =
    `The server responded to ${url} with an HTML page; check the path. ` +
    "Servers of apps often return their page for every path.";
  throw new WarmstartError("unexpected_html", message, { status, url });
}

/**
 * Whether a 206 response is the rest of the partial file. A server of another origin may hide headers; then the
 * visible ones decide.
 */
function continues(response: Response, from: number, about: PartialFile): boolean {
  const { headers } = response;
  if (isEncoded(headers)) return false;
  const now = validatorOf(response);
  if (about.etag !== undefined ? now.etag !== about.etag : now.modified !== about.modified) return false;
  const range = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(headers.get("content-range") ?? "");
  if (range !== null) {
    const total = range[3] === "*" ? undefined : Number(range[3]);
    return (
      Number(range[1]) === from && (total === undefined || about.total === undefined || total === about.total)
    );
  }
  const whole = about.total ?? about.told;
  return whole !== undefined && rangeTotal(response, from) === whole;
}

/** Returns the length of the whole file, from a response with its end. */
function rangeTotal({ headers }: Response, from: number): number | undefined {
  const total = /\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
  if (total !== undefined) return Number(total);
  const rest = lengthOf(headers);
  return rest === undefined ? undefined : from + rest;
}

function aboutOf(response: Response): PartialFile {
  const { headers } = response;
  const told = isEncoded(headers) ? undefined : lengthOf(headers);
  const resumable = !isEncoded(headers) && headers.get("accept-ranges") !== "none";
  const { etag, modified } = resumable ? validatorOf(response) : { etag: undefined, modified: undefined };
  // Another origin may hide that the body is encoded, so its length may not be the file's. The browser itself
  // detects truncation there.
  const total = response.type === "cors" && !headers.has("content-encoding") ? undefined : told;
  return { etag, modified, total, told, type: headers.get("content-type") ?? undefined };
}

/**
 * Returns the strong validator of this version: neither a weak tag nor a date as recent as the response.
 */
function validatorOf({ headers }: Response): Validator {
  const etag = headers.get("etag") ?? "";
  if (/^"[^"]*"$/.test(etag)) return { etag, modified: undefined };
  const modified = headers.get("last-modified") ?? undefined;
  const asked = Date.parse(headers.get("date") ?? "") || Date.now();
  const isStrong = etag === "" && modified !== undefined && asked - Date.parse(modified) >= 60_000;
  return { etag: undefined, modified: isStrong ? modified : undefined };
}

function keptHeaders(about: PartialFile, length: number): Headers {
  const headers = new Headers({ "content-length": String(length) });
  if (about.type !== undefined) headers.set("content-type", about.type);
  if (about.etag !== undefined) headers.set("etag", about.etag);
  if (about.modified !== undefined) headers.set("last-modified", about.modified);
  return headers;
}

/** Creates the error for a length that neither caller nor server announced, and discards the partial file. */
function wrongSize(parts: Parts, length: number, { size, request: { url } }: Transfer): WarmstartError {
  parts.restart();
  const message =
    size === undefined
      ? `${url} has more bytes than the server announced; try again.`
      : `${url} has ${length} bytes in place of ${size}; check its version.`;
  return new WarmstartError("integrity", message, { url });
}

function isEncoded(headers: Headers): boolean {
  return !/^(identity)?$/i.test(headers.get("content-encoding") ?? "");
}

function lengthOf(headers: Headers): number | undefined {
  const length = headers.get("content-length") ?? "";
  return /^\d+$/.test(length) ? Number(length) : undefined;
}

function isSameOrigin(url: string): boolean {
  return new URL(url).origin === globalThis.origin;
}

/** Returns the delay in milliseconds, or `undefined` if a retry is useless. */
function waitBeforeRetry(error: unknown, failures: number): number | undefined {
  if (!(error instanceof Retryable) || failures >= TRIES) return undefined;
  return error.waitMs ?? 250 * 2 ** (failures - 1) * (1 + Math.random());
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
