import * as engine from "../engine/warmstart_wasm.js";
import { loadNow } from "./engine.js";
import { invalid } from "./errors.js";

/** The value of a field. Numbers must be whole and from 0; a boolean counts as the text `true` or `false`. */
export type FieldValue = string | number | bigint | boolean | Uint8Array | readonly string[];

/** A key as an argument: text, bytes, or a {@link Key}. A text and its UTF-8 bytes are the same key. */
export type KeyInput = string | Uint8Array | Key;

/**
 * A key that is derived from labelled fields, so that a miss can be explained by the field that changed.
 * It is the BLAKE2b-256 digest of the fields: the same as in Rust, on every machine.
 */
export class Key {
  /** The kind of value that the key names. */
  readonly domain: string;
  /** The version of the fields' meaning. */
  readonly schema: number;
  /** The fields; their order is significant. */
  readonly fields: Readonly<Record<string, FieldValue>>;
  #derived: { bytes: Uint8Array; recipe: Uint8Array } | undefined;

  /** Use {@link key} to make a key. */
  constructor(domain: string, schema: number, fields: Record<string, FieldValue>) {
    this.domain = domain;
    this.schema = schema;
    this.fields = Object.freeze(copied(domain, schema, fields));
  }

  /** The 32 bytes of the key. */
  get bytes(): Uint8Array {
    return this.#derive().bytes;
  }

  /** The encoded domain, schema and fields, stored with the value. */
  get recipe(): Uint8Array {
    return this.#derive().recipe;
  }

  /** The key as 64 hexadecimal digits. */
  get name(): string {
    return Array.from(this.bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** Returns the domain and the name, for logs. */
  toString(): string {
    return `${this.domain} ${this.name}`;
  }

  #derive(): { bytes: Uint8Array; recipe: Uint8Array } {
    if (this.#derived) return this.#derived;
    loadNow();
    const fields = new engine.Fields(this.domain, this.schema);
    for (const [label, value] of Object.entries(this.fields)) {
      if (value instanceof Uint8Array) fields.bytes(label, value);
      else if (typeof value === "number" || typeof value === "bigint") fields.number(label, BigInt(value));
      else if (typeof value !== "object") fields.text(label, String(value));
      else {
        for (const item of value) fields.item(item);
        fields.list(label);
      }
    }
    const derived = fields.derive();
    this.#derived = { bytes: derived.slice(0, 32), recipe: derived.slice(32) };
    return this.#derived;
  }
}

/**
 * Makes a key from everything that determines the value. The order of the fields is significant. Omit what
 * can differ without changing the value, such as times and paths.
 *
 * @param domain the kind of value, for example `"my-app.kernel"`
 * @param schema the version of the fields' meaning, a whole number below 2^32; raise it when that changes
 * @throws WarmstartError `invalid_argument` if the domain, the schema or a field is invalid
 *
 * @example
 * const tuned = key("my-app.tuned", 1, { source: wgsl, device: "swiftshader", size: 256 });
 * const best = await cache.getOrCreate(tuned, async () => JSON.stringify(await tune()), { as: "json" });
 */
export function key(domain: string, schema: number, fields: Record<string, FieldValue>): Key {
  return new Key(domain, schema, fields);
}

/** Returns the text that a key is stored under: the same for a text and its UTF-8 bytes. */
export function idOf(input: KeyInput): string {
  if (typeof input === "string") return wellFormed("A key", input);
  if (!(input instanceof Uint8Array) && !(input instanceof Key))
    throw invalid(`The key is of type ${typeof input}; pass a string, a Uint8Array, or a Key made by key().`);
  const key = input instanceof Key ? input.bytes : input;
  try {
    return decoder.decode(key);
  } catch {
    // It is not UTF-8.
    return BINARY + Array.from(key, (byte) => String.fromCharCode(byte)).join("");
  }
}

/** Returns the bytes of the key with this id. */
export function keyOf(id: string): Uint8Array {
  if (id.startsWith(BINARY)) return Uint8Array.from(id.slice(BINARY.length), (letter) => letter.charCodeAt(0));
  return encoder.encode(id);
}

/** Returns the text of the key with this id, or `undefined` if it is not text. */
export function textOf(id: string): string | undefined {
  return id.startsWith(BINARY) ? undefined : id;
}

/** Begins the id of a key that is not text, before its bytes: half a surrogate pair, with which no text begins. */
const BINARY = "\ud800";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LARGEST = 2n ** 64n - 1n;

/** Throws on half a surrogate pair: it has no UTF-8, so all of them would be encoded alike. */
function wellFormed(what: string, text: string): string {
  if (!/\p{Surrogate}/u.test(text)) return text;
  throw invalid(
    `${what} has half a surrogate pair, so it is not Unicode text; pass its bytes as a Uint8Array.`,
  );
}

function copied(
  domain: string,
  schema: number,
  fields: Record<string, FieldValue>,
): Record<string, FieldValue> {
  if (typeof domain !== "string")
    throw invalid(`The domain of the key is of type ${typeof domain}; pass a string such as "my-app.kernel".`);
  wellFormed("The domain of a key", domain);
  if (!Number.isInteger(schema) || schema < 0 || schema > 0xffff_ffff) {
    throw invalid(`The schema of the key is ${String(schema)}; pass a whole number from 0 to 4294967295.`);
  }
  if (typeof fields !== "object" || fields === null)
    throw invalid(`The fields of the key are ${String(fields)}; pass an object of labels and values.`);
  const copy: Record<string, FieldValue> = Object.create(null) as Record<string, FieldValue>;
  for (const [label, value] of Object.entries(fields)) copy[label] = checked(label, value);
  return copy;
}

function checked(label: string, value: FieldValue): FieldValue {
  wellFormed("The label of a field", label);
  switch (typeof value) {
    case "string":
      return wellFormed(`The field "${label}"`, value);
    case "boolean":
      return value;
    case "number":
      if (Number.isSafeInteger(value) && value >= 0) return value;
      throw invalid(
        `The field "${label}" is ${value}; pass a whole number from 0, or a string such as "${value}".`,
      );
    case "bigint":
      if (value >= 0n && value <= LARGEST) return value;
      throw invalid(`The field "${label}" is ${value}; pass a number from 0 to 2^64-1.`);
  }
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value) && value.every((item) => typeof item === "string"))
    return Object.freeze(value.map((item: string) => wellFormed(`The field "${label}"`, item)));
  throw invalid(
    `The field "${label}" is of type ${typeof value}; ` +
      "pass a string, a number, a boolean, a Uint8Array or an array of strings.",
  );
}
