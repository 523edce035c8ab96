import { invalid, WarmstartError } from "./errors.js";

/**
 * Parses a digest as HTML's `integrity` has it: `sha256-…`, `sha384-…` or `sha512-…`, in Base64. Returns the name
 * of the algorithm, a space and the digest.
 *
 * @throws WarmstartError `invalid_argument` if it is none, or more than one
 */
export function parsedIntegrity(text: string): string {
  const [, bits, digest] = /^\s*sha(256|384|512)-([A-Za-z0-9+/_-]+)={0,2}\s*$/.exec(text) ?? [];
  if (bits === undefined || digest === undefined)
    throw invalid(`integrity is "${text}"; pass "sha256-" and the digest in Base64, as in HTML.`);
  return `SHA-${bits} ${digest.replace(/-/g, "+").replace(/_/g, "/")}`;
}

/**
 * Returns whether `body`, which is read into memory as a whole, has a parsed digest.
 *
 * @throws WarmstartError `integrity` if this page cannot compute digests
 */
export async function hasDigest(body: Blob, integrity: string): Promise<boolean> {
  if (globalThis.crypto?.subtle === undefined)
    throw new WarmstartError("integrity", "This page cannot compute digests; serve it from https or localhost.");
  const [algorithm = "", expected] = integrity.split(" ");
  const digest = new Uint8Array(await crypto.subtle.digest(algorithm, await body.arrayBuffer()));
  return btoa(String.fromCharCode(...digest)).replace(/=+$/, "") === expected;
}
