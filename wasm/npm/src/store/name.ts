import type { Engine } from "../engine.js";

/** The name that a key's entry has: in the directory, in the journal, and in the keys of its pieces. */
export function nameOf(engine: Engine, key: Uint8Array): Uint8Array<ArrayBuffer> {
  return engine.digest_of(key) as Uint8Array<ArrayBuffer>;
}

/**
 * A name as text of 32 characters, one for each byte: maps find it faster than hexadecimal digits, and it
 * sorts alike.
 */
export function textOf(name: Uint8Array): string {
  return String.fromCharCode.apply(null, name as unknown as number[]);
}

/** The name of which this is the text. */
export function bytesOfText(text: string): Uint8Array<ArrayBuffer> {
  const name = new Uint8Array(LENGTH);
  writeText(name, 0, text);
  return name;
}

/** Writes a name. */
export function writeText(bytes: Uint8Array, from: number, text: string): void {
  for (let at = 0; at < LENGTH; at += 1) bytes[from + at] = text.charCodeAt(at);
}

/** Names of 32 bytes each, one behind the other. */
export function* split(names: Uint8Array): Generator<Uint8Array<ArrayBuffer>> {
  for (let at = 0; at < names.length; at += LENGTH) {
    yield names.slice(at, at + LENGTH) as Uint8Array<ArrayBuffer>;
  }
}

/** Bytes as hexadecimal digits. */
export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += DIGITS[byte];
  return text;
}

/** Bytes of a name. */
const LENGTH = 32;
const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
