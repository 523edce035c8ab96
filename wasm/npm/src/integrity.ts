import { invalid, WarmstartError } from "./errors.js";

/** A digest as HTML's `integrity` has it: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. */
export class Integrity {
  readonly #algorithm: string;
  readonly #digests: readonly string[];

  /**
   * Reads one digest, or several between spaces. Of several, the strongest algorithm counts, and any of its
   * digests.
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
      throw invalid(`integrity is "${text}"; give "sha256-" and the digest in Base64, as in HTML.`);
    }
    this.#algorithm = `SHA-${strongest}`;
    this.#digests = found
      .filter(([, bits]) => bits === strongest)
      .map(([, , digest]) => plainBase64(digest as string));
  }

  /** The same for the same digests, whatever way they are written. */
  toString(): string {
    return this.#digests.map((digest) => `${this.#algorithm} ${digest}`).join(" ");
  }

  /**
   * Whether it is the digest of `body`, which is read into memory as a whole.
   *
   * @throws WarmstartError `integrity` where this page cannot compute digests
   */
  async matches(body: Blob): Promise<boolean> {
    if (globalThis.crypto?.subtle === undefined) {
      const message =
        "A page computes digests only on https and on localhost. Serve it there, or leave integrity out.";
      throw new WarmstartError("integrity", message);
    }
    const digest = new Uint8Array(await crypto.subtle.digest(this.#algorithm, await body.arrayBuffer()));
    return this.#digests.includes(btoa(String.fromCharCode(...digest)));
  }
}

/** The usual alphabet, padded. */
function plainBase64(digest: string): string {
  const usual = digest.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  return usual + "=".repeat((4 - (usual.length % 4)) % 4);
}
