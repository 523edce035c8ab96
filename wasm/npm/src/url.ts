import { invalid } from "./errors.js";

/**
 * The key under which a file is kept: its absolute address, without the fragment.
 *
 * A text that is no address, nor becomes one here, is a key as it is.
 *
 * @internal
 */
export function urlKey(address: string | URL | Request): string {
  const text = typeof address === "string" ? address : address instanceof URL ? address.href : address.url;
  if (typeof text !== "string") throw invalid("An address is a string, a URL or a Request.");
  return absolute(text) ?? text;
}

/** The absolute address, without the fragment; `undefined` where there is none. */
export function absolute(address: string): string | undefined {
  try {
    const url = new URL(address, baseUrl());
    url.hash = "";
    return url.href;
  } catch {
    return undefined;
  }
}

function baseUrl(): string | undefined {
  if (typeof document !== "undefined") return document.baseURI;
  // A worker made from a Blob has an address that nothing can be relative to.
  return location.protocol === "blob:" ? globalThis.origin : location.href;
}
