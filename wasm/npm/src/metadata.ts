import { invalid } from "./errors.js";
import { Key, type KeyInput } from "./key.js";
import type { PutOptions, Recipe, Value } from "./types.js";

/** The metadata of a value. */
export interface Known {
  label: string | undefined;
  headers: Headers;
  recipe: Recipe | undefined;
}

/** Encodes the metadata of `value`. Empty metadata is no bytes. */
export function encodeMetadata(key: KeyInput, value: Value, options: PutOptions): Uint8Array {
  const recipe = key instanceof Key ? key.recipe : undefined;
  const attributes = Array.from(headersOf(value, options), ([name, text]) => [HEADER + name, text]);
  const { label } = options;
  if (label !== undefined) {
    if (typeof label !== "string") throw invalid(`The label is a ${typeof label}; pass a string.`);
    attributes.unshift([LABEL, label]);
  }
  if (recipe === undefined && attributes.length === 0) return NOTHING;
  // The recipe is encoded with no attributes behind it, which is a 0 at the end. Without a recipe it begins
  // with one.
  const bytes = Array.from(recipe === undefined ? [0] : recipe.subarray(0, -1));
  // Seven bits a byte, the lowest first.
  const count = (number: number): void => {
    for (; number >= 128; number = Math.floor(number / 128)) bytes.push((number % 128) + 128);
    bytes.push(number);
  };
  count(attributes.length);
  for (const text of attributes.flat()) {
    const part = encoder.encode(text);
    count(part.length);
    for (const byte of part) bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

/** Decodes the output of {@link encodeMetadata}. Ignores unknown attributes. */
export function decodeMetadata(metadata: Uint8Array): Known {
  const known: Known = { label: undefined, headers: new Headers(), recipe: undefined };
  if (metadata.length === 0) return known;
  try {
    const reader = new Reader(metadata);
    if (reader.number() > 0) known.recipe = recipeOf(reader);
    for (let left = reader.number(); left > 0; left--) {
      const [name, text] = [reader.text(), reader.text()];
      if (name === LABEL) known.label = text;
      else if (name.startsWith(HEADER)) known.headers.set(name.slice(HEADER.length), text);
    }
  } catch {
    // Another program wrote it: return what could be decoded.
  }
  return known;
}

function recipeOf(reader: Reader): Recipe {
  const recipe: Recipe = { domain: reader.text(), schema: reader.number(), fields: [] };
  for (let left = reader.number(); left > 0; left--) {
    const [label, digest] = [reader.text(), hex(reader.take(8))];
    recipe.fields.push(reader.number() > 0 ? { label, value: reader.text(), digest } : { label, digest });
  }
  return recipe;
}

/** Reads what Rust's postcard encoded: see docs/format.md. Throws where the bytes end too early. */
class Reader {
  #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A whole number, or a flag: 0 or 1. */
  number(): number {
    const byte = this.take(1)[0] as number;
    return byte < 128 ? byte : byte - 128 + 128 * this.number();
  }

  /** A text behind its length. Unknown attributes are bytes of any kind, so nothing is refused. */
  text(): string {
    return decoder.decode(this.take(this.number()));
  }

  take(length: number): Uint8Array {
    if (length > this.#bytes.length) throw new RangeError("the bytes end too early");
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return taken;
  }
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
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

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

function headersOf(value: Value, { headers: given, type }: PutOptions): Headers | [] {
  const isDescribed = value instanceof Response || value instanceof Blob;
  if (!isDescribed && given === undefined && type === undefined) return [];
  const headers = new Headers();
  if (value instanceof Blob && value.type !== "") headers.set("content-type", value.type);
  if (value instanceof Response) {
    for (const name of KEPT) if (value.headers.has(name)) headers.set(name, value.headers.get(name)!);
  }
  try {
    new Headers(given).forEach((text, name) => headers.set(name, text));
    if (type !== undefined) headers.set("content-type", type);
  } catch (cause) {
    throw invalid(`The headers are invalid: ${String(cause)}; pass what the constructor of Headers accepts.`);
  }
  headers.delete("content-length");
  headers.delete("content-encoding");
  return headers;
}
