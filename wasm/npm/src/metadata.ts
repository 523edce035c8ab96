import { invalid } from "./errors.js";
import { Key, type KeyInput } from "./key.js";
import type { PutOptions, Recipe, Value } from "./types.js";
import { put, Wire } from "./wire.js";

/** The metadata of a value. */
export interface Known {
  label: string | undefined;
  headers: Headers;
  recipe: Recipe | undefined;
}

/** Encodes the metadata of `value`. Empty metadata is no bytes. */
export function encodeMetadata(key: KeyInput, value: Value, options: PutOptions): Uint8Array {
  const recipe = key instanceof Key ? key.recipe : undefined;
  const attributes: [string, Uint8Array][] = [];
  if (options.label !== undefined) {
    if (typeof options.label !== "string")
      throw invalid(`The label is a ${typeof options.label}; pass a string.`);
    attributes.push([LABEL, encoder.encode(options.label)]);
  }
  for (const [name, text] of headersOf(value, options))
    attributes.push([HEADER + name, encoder.encode(text)]);
  if (recipe === undefined && attributes.length === 0) return NOTHING;
  // The recipe is encoded with no attributes behind it, which is a 0 at the end. Without a recipe it begins
  // with one.
  const bytes = Array.from(recipe === undefined ? [0] : recipe.subarray(0, -1));
  put(bytes, attributes.length);
  for (const [name, value] of attributes) {
    for (const part of [encoder.encode(name), value]) {
      put(bytes, part.length);
      for (const byte of part) bytes.push(byte);
    }
  }
  return Uint8Array.from(bytes);
}

/** Decodes the output of {@link encodeMetadata}. Ignores unknown attributes. */
export function decodeMetadata(metadata: Uint8Array): Known {
  const known: Known = { label: undefined, headers: new Headers(), recipe: undefined };
  if (metadata.length === 0) return known;
  try {
    const wire = new Wire(metadata);
    known.recipe = wire.flag() ? takeRecipe(wire) : undefined;
    for (let left = wire.number(); left > 0; left--) {
      const [name, value] = [wire.text(), wire.bytes()];
      if (name === LABEL) known.label = decoder.decode(value);
      else if (name.startsWith(HEADER)) known.headers.set(name.slice(HEADER.length), decoder.decode(value));
    }
  } catch {
    // Another program wrote it: return what could be decoded.
  }
  return known;
}

function takeRecipe(wire: Wire): Recipe {
  const recipe: Recipe = { domain: wire.text(), schema: wire.number(), fields: [] };
  for (let left = wire.number(); left > 0; left--) {
    const label = wire.text();
    const digest = hex(wire.take(8));
    recipe.fields.push(wire.flag() ? { label, value: wire.text(), digest } : { label, digest });
  }
  return recipe;
}

/** Returns bytes as hexadecimal digits. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The name that Rust's `Metadata::LABEL` has too. */
const LABEL = "label";
const HEADER = "header:";
const NOTHING = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * The headers of a stored `Response` that describe its bytes. The others describe the connection, or are long;
 * `content-length` is omitted because it may be that of compressed bytes, and the size is known.
 */
const KEPT = [
  "content-type",
  "content-disposition",
  "content-language",
  "etag",
  "last-modified",
  "cache-control",
  "expires",
  "date",
  "x-repo-commit",
  "x-linked-etag",
];

function headersOf(value: Value, options: PutOptions): Headers | [] {
  let headers: Headers | undefined;
  if (value instanceof Response) {
    headers = new Headers();
    for (const name of KEPT) {
      const text = value.headers.get(name);
      if (text !== null) headers.set(name, text);
    }
  } else if (value instanceof Blob && value.type !== "") {
    headers = new Headers({ "content-type": value.type });
  }
  if (options.headers === undefined && options.type === undefined) return headers ?? [];
  headers ??= new Headers();
  try {
    new Headers(options.headers).forEach((text, name) => headers.set(name, text));
    if (options.type !== undefined) headers.set("content-type", options.type);
  } catch (cause) {
    throw invalid(`The headers are invalid: ${String(cause)}; pass what the constructor of Headers accepts.`);
  }
  headers.delete("content-length");
  headers.delete("content-encoding");
  return headers;
}
