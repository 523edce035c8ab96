/**
 * What went wrong, as a stable name. Only what a caller can act on is an error; the rest is a counted miss.
 *
 * - `invalid_argument`: the call itself is wrong; the message says what to give instead.
 * - `http_error`: a server answered, but not with the file; see `status` and `url`.
 * - `network`: the server could not be reached, after several tries; see `url` and `cause`.
 * - `truncated`: less arrived than was announced.
 * - `integrity`: what arrived has not the digest that was asked for.
 * - `unexpected_html`: a page arrived where a file was expected.
 * - `damaged`: a stored value turned out to be damaged while it was streamed. It is gone; get it anew.
 * - `memory_only`: a warning: nothing is kept after this page, because IndexedDB cannot be used here.
 * - `no_space`: a warning: the browser has no room; the newest values are kept in memory only.
 * - `unsupported`: WebAssembly cannot be used here.
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

/** More about an error. */
export interface ErrorDetails {
  /** What it came from. */
  cause?: unknown;
  /** The status that the server answered with. */
  status?: number;
  /** The address that was asked. */
  url?: string;
}

/**
 * An error of the cache. An abort is not one of these: the reason of the signal is passed on as it is.
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
  /** What went wrong, as a stable name. */
  readonly code: ErrorCode;
  /** The status that the server answered with, of an `http_error`. */
  readonly status: number | undefined;
  /** The address that was asked, of an error of the network. */
  readonly url: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, "cause" in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.status = details.status;
    this.url = details.url;
  }
}

/** An error of the caller's making. */
export function invalid(message: string): WarmstartError {
  return new WarmstartError("invalid_argument", message);
}

/** A bound as the engine takes it. */
export function bound(what: string, value: number | undefined): number | undefined {
  if (value === undefined || value === Infinity) return undefined;
  if (typeof value === "number" && value >= 0) return Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER);
  throw invalid(
    `${what} is a number from 0, in ${what === "maxBytes" ? "bytes" : "entries"}, or is left out.`,
  );
}
