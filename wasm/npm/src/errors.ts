/**
 * The stable name of an error. Only failures that a caller can act on are errors; all others are counted
 * misses.
 *
 * - `invalid_argument`: the arguments are invalid; the message says what to pass instead.
 * - `http_error`: the server responded, but not with the file; see `status` and `url`.
 * - `network`: the server could not be reached after several attempts; see `url` and `cause`.
 * - `truncated`: the body was shorter than announced, or the connection broke.
 * - `integrity`: the file has another digest or length than expected, or the page cannot compute digests.
 * - `unexpected_html`: the server responded with an HTML page in place of the file.
 * - `damaged`: a stored value failed verification while it was streamed. It has been removed; fetch it again.
 * - `memory_only`: a warning: IndexedDB is not usable, so values are in memory and do not outlive this page.
 * - `no_space`: a warning: the browser's quota is exceeded, so the newest values are in memory only.
 * - `unsupported`: the browser or the page does not support WebAssembly.
 */
export type ErrorCode =
  | "invalid_argument"
  | "http_error"
  | "network"
  | "truncated"
  | "integrity"
  | "unexpected_html"
  | "damaged"
  | "memory_only"
  | "no_space"
  | "unsupported";

/** Details of an error. */
export interface ErrorDetails {
  /** The underlying error. */
  cause?: unknown;
  /** The HTTP status of the response. */
  status?: number;
  /** The requested URL. */
  url?: string;
}

/**
 * An error of the cache. Aborts are not errors of this class: they reject with the reason of the signal.
 *
 * @example
 * try {
 *   await cache.getOrCreate(url, () => fetch(url));
 * } catch (error) {
 *   if (error instanceof WarmstartError && error.code === "http_error") console.log(error.status);
 * }
 */
export class WarmstartError extends Error {
  override readonly name = "WarmstartError";
  /** The stable name of the error. */
  readonly code: ErrorCode;
  /** The HTTP status of the response, for `http_error` and `unexpected_html`. */
  readonly status: number | undefined;
  /** The requested URL, if the error is about a response or a download. */
  readonly url: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, "cause" in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.status = details.status;
    this.url = details.url;
  }
}

/** Creates an `invalid_argument` error. */
export function invalid(message: string): WarmstartError {
  return new WarmstartError("invalid_argument", message);
}

/** Checks a bound, and rounds it down. Returns `undefined` for no bound. */
export function bound(what: string, value: number | undefined): number | undefined {
  if (value === undefined || value === Infinity) return undefined;
  if (typeof value === "number" && value >= 0) return Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER);
  throw invalid(`${what} is ${String(value)}; pass a number from 0, or omit it.`);
}
