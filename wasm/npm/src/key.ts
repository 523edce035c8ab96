import { engineNow } from "./engine.js";
import { invalid } from "./errors.js";

/**
 * What a field of a key may be. Numbers are whole and not negative; a boolean is the text `true` or `false`.
 */
export type FieldValue = string | number | bigint | boolean | Uint8Array | readonly string[];

/** What names an entry: a text, bytes, or a {@link Key}. A text and its UTF-8 bytes are the same key. */
export type KeyInput = string | Uint8Array | Key;

/**
 * A key that is derived from labelled fields, so that a miss can be explained by the field that changed.
 * It is the digest of the fields: the same as in Rust, on every machine.
 */
export class Key {
  /** What kind of thing the key names. */
  readonly domain: string;
  /** The version of the fields' meaning. */
  readonly schema: number;
  /** The fields, in the order that counts. */
  readonly fields: Readonly<Record<string, FieldValue>>;
  #derived: { bytes: Uint8Array; recipe: Uint8Array } | undefined;

  /** Use {@link key}. */
  constructor(domain: string, schema: number, fields: Record<string, FieldValue>) {
    this.domain = domain;
    this.schema = schema;
    this.fields = Object.freeze(copied(domain, schema, fields));
  }

  /** The 32 bytes of the key. */
  get bytes(): Uint8Array {
    return this.#derive().bytes;
  }

  /** What the key was made of, encoded; kept beside the value. */
  get recipe(): Uint8Array {
    return this.#derive().recipe;
  }

  /** The key as 64 hexadecimal digits. */
  get name(): string {
    return Array.from(this.bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  toString(): string {
    return `${this.domain} ${this.name}`;
  }

  #derive(): { bytes: Uint8Array; recipe: Uint8Array } {
    if (this.#derived) return this.#derived;
    const derived = engineNow().derive_key(this.domain, this.schema, written(this.fields));
    this.#derived = { bytes: derived.slice(0, 32), recipe: derived.slice(32) };
    return this.#derived;
  }
}

/**
 * A key from everything that decides what the value is. The order of the fields counts. Leave out what may
 * differ without changing the value, such as times and paths.
 *
 * @param domain separates kinds of values, for example `"my-app.kernel"`
 * @param schema is raised when the meaning of the fields changes; a whole number below 2^32
 * @throws {@link WarmstartError} with `invalid_argument`, if a field cannot be in a key
 *
 * @example
 * const tuned = key("my-app.tuned", 1, { source: wgsl, device: "swiftshader", size: 256 });
 * const best = await cache.getOrCreate(tuned, async () => JSON.stringify(await tune()), { as: "json" });
 */
export function key(domain: string, schema: number, fields: Record<string, FieldValue>): Key {
  return new Key(domain, schema, fields);
}

/** The bytes that name an entry. A caller's array is copied, for it may be changed later. */
export function keyBytes(input: KeyInput): Uint8Array {
  if (typeof input === "string") return asciiBytes(input) ?? encoder.encode(wellFormed("A key", input));
  if (input instanceof Uint8Array) return input.slice();
  if (input instanceof Key) return input.bytes;
  throw invalid("A key is a string, a Uint8Array, or what key() returned.");
}

/** A text that is the same for the same key, whichever way it is given, and for no other. */
export function idOf(input: KeyInput): string {
  if (typeof input === "string") return input;
  const bytes = input instanceof Key ? input.bytes : input;
  // No text that is a key begins so.
  return keyText(bytes) ?? `\ud800${Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")}`;
}

/** The text of a key's bytes, where they are UTF-8. */
export function keyText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The fields as the engine reads them: kind, label and value, with lengths, little-endian. */
function written(fields: Readonly<Record<string, FieldValue>>): Uint8Array {
  const pieces: Uint8Array[] = [];
  const count = (number: number): void => {
    pieces.push(new Uint8Array(Uint32Array.of(number).buffer));
  };
  const put = (value: string | Uint8Array): void => {
    const bytes = typeof value === "string" ? encoder.encode(value) : value;
    count(bytes.length);
    pieces.push(bytes);
  };
  const begin = (kind: number, label: string): void => {
    pieces.push(Uint8Array.of(kind));
    put(label);
  };
  for (const [label, value] of Object.entries(fields)) {
    if (typeof value === "string" || typeof value === "boolean") {
      begin(TEXT, label);
      put(String(value));
    } else if (typeof value === "number" || typeof value === "bigint") {
      begin(NUMBER, label);
      pieces.push(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
    } else if (value instanceof Uint8Array) {
      begin(BYTES, label);
      put(value);
    } else {
      begin(LIST, label);
      count(value.length);
      for (const item of value) put(item);
    }
  }
  return joined(pieces);
}

function joined(pieces: Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** The kinds of fields, as the engine has them. */
const [TEXT, BYTES, NUMBER, LIST] = [1, 2, 3, 4] as const;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LARGEST = 2n ** 64n - 1n;

/** Most keys are short ASCII texts, for which a `TextEncoder` takes longer than this. */
function asciiBytes(text: string): Uint8Array | undefined {
  if (text.length > 64) return undefined;
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return undefined;
    bytes[at] = code;
  }
  return bytes;
}

/** Fails on half a surrogate pair: it has no UTF-8, and is encoded as any other is. */
function wellFormed(what: string, text: string): string {
  if (!/\p{Surrogate}/u.test(text)) return text;
  throw invalid(
    `${what} has half a surrogate pair, so it is no Unicode text. Give its bytes as a Uint8Array.`,
  );
}

function copied(
  domain: string,
  schema: number,
  fields: Record<string, FieldValue>,
): Record<string, FieldValue> {
  if (typeof domain !== "string") throw invalid("The domain of a key is a string.");
  wellFormed("The domain of a key", domain);
  if (!Number.isInteger(schema) || schema < 0 || schema > 0xffff_ffff) {
    throw invalid("The schema of a key is a whole number from 0 to 4294967295.");
  }
  if (typeof fields !== "object" || fields === null) throw invalid("The fields of a key are an object.");
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
        `The field "${label}" is ${value}: give a whole number from 0, or a string such as "${value}".`,
      );
    case "bigint":
      if (value >= 0n && value <= LARGEST) return value;
      throw invalid(`The field "${label}" is out of range: numbers are from 0 to 2^64-1.`);
  }
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value) && value.every((item) => typeof item === "string"))
    return Object.freeze(value.map((item: string) => wellFormed(`The field "${label}"`, item)));
  throw invalid(`The field "${label}" is neither text, number, boolean, Uint8Array nor a list of texts.`);
}
