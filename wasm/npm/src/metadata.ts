import * as engine from "../engine/warmstart_wasm.js";
import { texts } from "./engine.js";
import { invalid } from "./errors.js";
import { Key, type KeyInput } from "./key.js";
import type { PutOptions, Recipe, Value } from "./types.js";

/** The metadata of a value. */
interface DecodedMetadata {
  label: string | undefined;
  headers: Headers;
  recipe: Recipe | undefined;
}

/** Encodes the metadata of `value`. Returns no bytes if there is none. */
export function encodeMetadata(key: KeyInput, value: Value, options: PutOptions): Uint8Array {
  const recipe = key instanceof Key ? key.recipe : undefined;
  const attributes = Array.from(headersOf(value, options), ([name, text]) => [HEADER + name, text]);
  const { label } = options;
  if (label !== undefined) {
    if (typeof label !== "string") throw invalid(`The label is a ${typeof label}; pass a string.`);
    attributes.unshift([LABEL, label]);
  }
  if (recipe === undefined && attributes.length === 0) return NOTHING;
  const writer = new engine.MetadataWriter(recipe ?? NOTHING);
  for (const [name, text] of attributes) writer.set(name!, text!);
  return writer.finish();
}

/** Decodes the output of {@link encodeMetadata}. Ignores unknown attributes. */
export function decodeMetadata(metadata: Uint8Array): DecodedMetadata {
  const known: DecodedMetadata = { label: undefined, headers: new Headers(), recipe: undefined };
  if (metadata.length === 0) return known;
  known.recipe = recipeOf(metadata);
  const attributes = texts(engine.attributes_of(metadata));
  for (let at = 0; at < attributes.length; at += 2) {
    const [name = "", text = ""] = attributes.slice(at, at + 2);
    if (name === LABEL) known.label = text;
    else if (name.startsWith(HEADER)) known.headers.set(name.slice(HEADER.length), text);
  }
  return known;
}

function recipeOf(metadata: Uint8Array): Recipe | undefined {
  const [domain, schema, ...rest] = texts(engine.recipe_of(metadata));
  if (domain === undefined) return undefined;
  const recipe: Recipe = { domain, schema: Number(schema), fields: [] };
  for (let at = 0; at < rest.length; at += 3) {
    const [label = "", digest = "", value] = rest.slice(at, at + 3);
    recipe.fields.push(value === undefined ? { label, digest } : { label, value, digest });
  }
  return recipe;
}

/** The name that Rust's `Metadata::LABEL` has too. */
const LABEL = "label";
const HEADER = "header:";
const NOTHING = new Uint8Array(0);

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
