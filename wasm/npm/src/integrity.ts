import { invalid, WarmstartError } from "./errors.js";

/** A digest as HTML's `integrity` has it: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. */
export class Integrity {
  readonly #algorithm: string;
  readonly #digest: string;

  /**
   * Parses a digest.
   *
   * @throws WarmstartError `invalid_argument` if it is none, or more than one
   */
  constructor(text: string) {
    const [, bits, digest] = /^\s*sha(256|384|512)-([A-Za-z0-9+/_-]+)={0,2}\s*$/.exec(text) ?? [];
    if (bits === undefined || digest === undefined)
      throw invalid(`integrity is "${text}"; pass "sha256-" and the digest in Base64, as in HTML.`);
    this.#algorithm = `SHA-${bits}`;
    this.#digest = digest.replace(/-/g, "+").replace(/_/g, "/");
  }

  /** Returns a canonical text of the digest. */
  toString(): string {
    return `${this.#algorithm} ${this.#digest}`;
  }

  /**
   * Returns whether it is the digest of `body`, which is read into memory as a whole.
   *
   * @throws WarmstartError `integrity` if this page cannot compute digests
   */
  async matches(body: Blob): Promise<boolean> {
    if (globalThis.crypto?.subtle === undefined) {
      const message = "This page cannot compute digests; serve it from https or localhost, or omit integrity.";
      throw new WarmstartError("integrity", message);
    }
    const digest = new Uint8Array(await crypto.subtle.digest(this.#algorithm, await body.arrayBuffer()));
    return btoa(String.fromCharCode(...digest)).replace(/=+$/, "") === this.#digest;
  }
}
