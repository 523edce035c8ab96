import type { Cache } from "./cache.js";
import { WarmstartError } from "./errors.js";
import { type PartialFile, Parts } from "./parts.js";
import { lengthIn } from "./payload.js";

/** A file to download. */
interface Transfer {
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
interface Transferred {
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
  const { signal } = wanted;
  const parts = await Parts.load(wanted.cache, wanted.request.url);
  const resumed = parts.length > 0;
  let failures = 0;
  let farthest = parts.length;
  for (;;) {
    try {
      signal.throwIfAborted();
      const about = await attempt(wanted, parts);
      if (about === undefined) continue;
      const body = parts.blob(about.type);
      // The pieces are removed before the whole file is stored: both together would need twice the space, and
      // would evict other entries.
      await parts.begin();
      return { body, headers: headersOf(about, body.size), resumed };
    } catch (error) {
      // A long download over a bad connection continues as long as it makes progress.
      if (parts.length >= farthest + PIECE / 8) failures = 0;
      farthest = Math.max(farthest, parts.length);
      failures += 1;
      if (signal.aborted || failures === TRIES || !isTransient(error)) {
        await parts.keep();
        signal.throwIfAborted();
        throw error;
      }
      const delay = 250 * 2 ** (failures - 1) * (1 + Math.random());
      await new Promise((resolve) => {
        setTimeout(resolve, delay);
        signal.addEventListener("abort", resolve, { once: true });
      });
    }
  }
}

/** The smallest piece that is stored while more data arrives, in bytes. */
const PIECE = 8 * 1024 * 1024;
/** The number of attempts without progress before a transfer fails. */
const TRIES = 3;

/** Whether another attempt may succeed: the network or the server has failed. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof WarmstartError)) return false;
  return ["network", "truncated"].includes(error.code) || (error.status ?? 0) >= 500;
}

/**
 * Requests the missing part once, and reads it. Returns the properties of the complete file, or nothing if the part
 * that was there belongs to another version: then it is removed.
 */
async function attempt(wanted: Transfer, parts: Parts): Promise<PartialFile | undefined> {
  const { request: { url }, size, html } = wanted;
  let { about } = parts;
  if (!about?.version || parts.length >= (about.total ?? Infinity)) void parts.begin();
  const from = parts.length;
  const response = await ask(wanted, from, about?.version);
  const { status } = response;
  try {
    if (from > 0 && [206, 412, 416].includes(status)) {
      if (status !== 206 || !continues(response, from, about!)) return void parts.begin();
    } else {
      const message = `The server responded to ${url} with status ${status}; check the URL, or try later.`;
      if (status !== 200) throw new WarmstartError("http_error", message, { status, url });
      const page = html ? undefined : pageInstead(url, response);
      if (page) throw page;
      about = aboutOf(response);
      void parts.begin(about);
    }
    const total = about!.total ?? (status === 206 ? rangeTotal(response, from) : undefined) ?? size;
    if (size !== undefined && total !== size) throw wrongSize(parts, url, total, size);
    wanted.onProgress(parts.length, total ?? about!.told);
    await read(response, parts, total, wanted);
    if (total !== undefined && parts.length < total) {
      const message = `${url} ended after ${parts.length} of ${total} bytes; try again to resume.`;
      throw new WarmstartError("truncated", message, { url });
    }
    if (total !== undefined && parts.length > total) throw wrongSize(parts, url, parts.length, total);
    return about;
  } finally {
    // There is nothing left to cancel of a body that was read.
    await response.body?.cancel().catch(() => undefined);
  }
}

async function ask({ request, signal }: Transfer, from: number, version = ""): Promise<Response> {
  const headers = new Headers(request.headers);
  const options: RequestInit = { headers, signal };
  if (from > 0) {
    options.cache = "no-store";
    headers.set("range", `bytes=${from}-`);
    // For another origin, If-Range would need a CORS preflight, so the version in the response is compared
    // instead.
    if (new URL(request.url).origin === globalThis.origin) headers.set("if-range", version);
  }
  try {
    return await fetch(new Request(request, options));
  } catch (cause) {
    signal.throwIfAborted();
    const message = `${request.url} cannot be reached; check the network and the server's CORS headers.`;
    throw new WarmstartError("network", message, { cause, url: request.url });
  }
}

/** Reads the body into pieces. They include all bytes that arrived before a failure. */
async function read(
  response: Response,
  parts: Parts,
  total: number | undefined,
  { request: { url }, signal, onProgress }: Transfer,
): Promise<void> {
  let chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const seal = (): void => {
    if (size > 0) parts.add(new Blob(chunks));
    [chunks, size] = [[], 0];
  };
  const reader = response.body?.getReader();
  try {
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
      chunks.push(next.value);
      size += next.value.byteLength;
      onProgress(parts.length + size, total ?? parts.about?.told);
      // A complete file is stored as a whole.
      if (size < PIECE || parts.length + size === total) continue;
      seal();
      void parts.keep();
    }
  } catch (cause) {
    signal.throwIfAborted();
    const message = `The connection for ${url} broke; try again to resume.`;
    throw new WarmstartError("truncated", message, { cause, url });
  } finally {
    seal();
  }
}

/**
 * Returns the error for a response that is an HTML page although the name of the file is not that of one.
 *
 * @internal
 */
export function pageInstead(url: string, { headers, status }: Response): WarmstartError | undefined {
  const isPage = /^\s*(text\/html|application\/xhtml\+xml)\s*(;|$)/i.test(headers.get("content-type") ?? "");
  if (!isPage || /\.x?html?$/i.test(url.replace(/[?#].*$/s, ""))) return undefined;
  const message = `The server responded to ${url} with an HTML page in place of the file; check the path.`;
  return new WarmstartError("unexpected_html", message, { status, url });
}

/**
 * Whether a 206 response is the rest of the partial file. A server of another origin may hide headers; then the
 * visible ones decide.
 */
function continues(response: Response, from: number, { version, total, told }: PartialFile): boolean {
  const { headers } = response;
  if (isEncoded(headers) || versionOf(headers) !== version) return false;
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get("content-range") ?? "");
  if (range !== null) return Number(range[1]) === from && ["*", String(total ?? range[2])].includes(range[2]!);
  const whole = total ?? told;
  return whole !== undefined && rangeTotal(response, from) === whole;
}

/** Returns the length of the whole file, from a response with its end. */
function rangeTotal({ headers }: Response, from: number): number | undefined {
  const total = /\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
  if (total !== undefined) return Number(total);
  const rest = lengthIn(headers);
  return rest === undefined ? undefined : from + rest;
}

function aboutOf({ headers, type: kind }: Response): PartialFile {
  const type = headers.get("content-type") ?? "";
  if (isEncoded(headers)) return { version: "", type };
  const version = headers.get("accept-ranges") === "none" ? "" : versionOf(headers);
  const told = lengthIn(headers);
  // Another origin may hide that the body is encoded, so its length may not be the file's. The browser itself
  // detects truncation there.
  const total = kind === "cors" && !headers.has("content-encoding") ? undefined : told;
  return { version, total, told, type };
}

/** Returns what identifies this version for certain: neither a weak tag nor a date as recent as the response. */
function versionOf(headers: Headers): string {
  const etag = headers.get("etag") ?? "";
  if (etag !== "") return /^"[^"]*"$/.test(etag) ? etag : "";
  const modified = headers.get("last-modified") ?? "";
  const asked = Date.parse(headers.get("date") ?? "") || Date.now();
  return asked - Date.parse(modified) >= 60_000 ? modified : "";
}

function headersOf({ type, version }: PartialFile, length: number): Headers {
  const headers = new Headers({ "content-length": String(length) });
  if (type) headers.set("content-type", type);
  if (version) headers.set(version.startsWith('"') ? "etag" : "last-modified", version);
  return headers;
}

/** Creates the error for a length that was not announced, and discards the partial file. */
function wrongSize(parts: Parts, url: string, length: number | undefined, announced: number): WarmstartError {
  void parts.begin();
  const message = `${url} has ${length} bytes in place of ${announced}; check its version.`;
  return new WarmstartError("integrity", message, { url });
}

function isEncoded(headers: Headers): boolean {
  return !/^(identity)?$/i.test(headers.get("content-encoding") ?? "");
}
