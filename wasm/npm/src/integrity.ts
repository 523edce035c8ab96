import { invalid, WarmstartError } from "./errors.js";

/** A digest as HTML's `integrity` has it: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. */
export class Integrity {
  readonly #algorithm: string;
  readonly #digests: readonly string[];

  /**
   * Parses one digest, or several separated by spaces. Of several, any digest of the strongest algorithm
   * matches.
   *
   * @throws WarmstartError `invalid_argument` if there is no digest in it
   */
  constructor(text: string) {
    const found = [...text.matchAll(/(?:^|\s)sha(256|384|512)-([A-Za-z0-9+/_-]+={0,2})(?:\?\S*)?(?=\s|$)/g)];
    const strongest = found
      .map(([, bits]) => bits as string)
      .sort()
      .at(-1);
    if (strongest === undefined) {
      throw invalid(`integrity is "${text}"; pass "sha256-" and the digest in Base64, as in HTML.`);
    }
    this.#algorithm = `SHA-${strongest}`;
    this.#digests = found
      .filter(([, bits]) => bits === strongest)
      .map(([, , digest]) => plainBase64(digest as string));
  }

  /** Returns a canonical text of the digests. */
  toString(): string {
    return this.#digests.map((digest) => `${this.#algorithm} ${digest}`).join(" ");
  }

  /**
   * Returns whether it is the digest of `body`, which is read into memory as a whole.
   *
   * @throws WarmstartError `integrity` if this page cannot compute digests
   */
  async matches(body: Blob): Promise<boolean> {
    if (globalThis.crypto?.subtle === undefined) {
      const message =
        "This page cannot compute digests; serve it from https or localhost, or omit integrity.";
      throw new WarmstartError("integrity", message);
    }
    const digest = new Uint8Array(await crypto.subtle.digest(this.#algorithm, await body.arrayBuffer()));
    return this.#digests.includes(btoa(String.fromCharCode(...digest)));
  }
}

/** Converts to the standard alphabet, with padding. */
function plainBase64(digest: string): string {
  const usual = digest.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  return usual + "=".repeat((4 - (usual.length % 4)) % 4);
}
