/**
 * Returns the key of a file: its absolute URL, without the fragment.
 *
 * A text that is not a URL, not even relative to the page's, is a key as it is.
 *
 * @internal
 */
export function urlKey(address: string | URL | Request): string {
  const text = address instanceof Request ? address.url : String(address);
  return absolute(text) ?? text;
}

/** Returns the absolute URL without the fragment, or `undefined` for text that is not a URL. */
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
  // The URL of a worker made from a Blob cannot be a base URL.
  return location.protocol === "blob:" ? globalThis.origin : location.href;
}
