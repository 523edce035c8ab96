// Reproducible bytes: the server sends them, and a page computes the bytes that must arrive.

/** `length` bytes from `start` of the endless sequence that `seed` names. */
export function bytes(length, seed = 0, start = 0) {
  const out = new Uint8Array(length);
  const first = start >>> 2;
  const words = new Uint32Array(Math.ceil((start + length) / 4) - first);
  for (let at = 0; at < words.length; at += 1) words[at] = mixed(first + at, seed);
  const made = new Uint8Array(words.buffer);
  out.set(made.subarray(start - first * 4, start - first * 4 + length));
  return out;
}

function mixed(at, seed) {
  let word = Math.imul(at + 1, 0x9e3779b1) ^ Math.imul(seed + 1, 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 15), 0x2c1b3c6d);
  word = Math.imul(word ^ (word >>> 12), 0x297a2d39);
  return word ^ (word >>> 15);
}
