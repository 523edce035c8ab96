// How stored bytes are altered.

import { fromHex, known } from "./words.js";

const WORDS = ["flip", "zero", "cut", "grow", "resize", "hex"];

/** Other bytes than these. */
export function altered(bytes, how) {
  const [[word, value]] = Object.entries(known("damage", WORDS, how));
  const at = value < 0 ? bytes.length + value : value;
  const other = bytes.slice();
  switch (word) {
    case "flip":
      other[at] ^= 1 << at % 8;
      return other;
    case "zero":
      other[at] = 0;
      return other;
    case "hex":
      return fromHex(value);
    case "cut":
      return resized(bytes, bytes.length - value);
    case "grow":
      return resized(bytes, bytes.length + value);
    default:
      return resized(bytes, value);
  }
}

function resized(bytes, length) {
  const other = new Uint8Array(length);
  other.set(bytes.subarray(0, length));
  return other;
}

/**
 * Every alteration of a kind. Of an entry whose head is apart: in the header each, in the rest of it
 * some, and in the payload its ends and its middle.
 */
export function eachDamage(kind, length, head) {
  const places = [];
  if (head === undefined) {
    for (let at = 0; at < length; at += 1) places.push(at);
  } else {
    for (let at = 0; at < head; at += at < 64 && kind === "flips" ? 1 : 7) places.push(at);
    places.push(head - 1, head, head + 1, Math.floor((head + length) / 2), length - 2, length - 1);
  }
  switch (kind) {
    case "flips":
      return places.map((at) => ({ flip: at }));
    case "lengths":
      return [...places, length + 1, length + 5000].map((size) => ({ resize: size }));
    default:
      throw new Error(`${kind} is no kind of damage`);
  }
}
