// The words within a scenario: keys, sizes, limits, and payloads that tell which put they came from.

const encoder = new TextEncoder();

/** Fails on an unknown field, which could be misspelled. */
export function known(what, words, fields) {
  for (const field of Object.keys(fields)) {
    if (!words.includes(field)) throw new Error(`${what} has no "${field}"`);
  }
  return fields;
}

/** A text, or many times one character and perhaps another at the end. */
export function textOf(text) {
  if (typeof text === "string") return text;
  const { size, fill, end = "" } = known("a text", ["size", "fill", "end"], text);
  return fill.repeat(size - end.length) + end;
}

function fieldsOf({ domain, fields }, round, warmstart) {
  const numbers = fields.map((value) => (value === "round" ? round : value));
  return warmstart.key(domain, 1, Object.fromEntries(numbers.map((value, at) => [`field ${at}`, value])));
}

/** A key as the package takes it, and its bytes. */
export function keyOf(key, round, warmstart) {
  if (key.bytes) {
    const bytes = Uint8Array.from(key.bytes);
    return { input: bytes, bytes };
  }
  if (key.key_of) {
    const { bytes } = fieldsOf(key.key_of, round, warmstart);
    return { input: bytes, bytes };
  }
  if (key.domain) {
    const input = fieldsOf(known("a key", ["domain", "fields"], key), round, warmstart);
    return { input, bytes: input.bytes };
  }
  const input = key.numbered === undefined ? textOf(key) : `${key.numbered}${round}`;
  return { input, bytes: encoder.encode(input) };
}

/** In bytes, in this round. */
export function sizeOf(size, round, mode, isExact) {
  const added = isExact ? 0 : mode.added;
  if (size === undefined) return mode.standard;
  if (typeof size === "number") return size + added;
  const { standard, first, step } = known("a size", ["standard", "first", "step"], size);
  return standard === undefined ? first + step * round + added : standard * mode.standard;
}

/** As the package takes them. A store counts a little more than the payload, so half a payload is added. */
export function limitsOf(limits, mode) {
  const { room, bytes, entries } = known("limits", ["room", "bytes", "entries"], limits);
  const bounds = {};
  if (room !== undefined) bounds.maxBytes = room * mode.standard + mode.standard / 2;
  if (bytes !== undefined) bounds.maxBytes = bytes;
  if (entries !== undefined) bounds.maxEntries = entries;
  return bounds;
}

/** Every byte follows from the bytes of the key, the version and the size. */
export function payloadOf(keyBytes, version, size) {
  let state = 0x811c9dc5 ^ size;
  for (const byte of keyBytes) state = Math.imul(state ^ byte, 0x01000193);
  state = Math.imul(state ^ version, 0x01000193) | 1;
  const words = new Uint32Array(Math.ceil(size / 4));
  for (let at = 0; at < words.length; at += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[at] = state;
  }
  return new Uint8Array(words.buffer, 0, size);
}

/** Whether both are the same bytes. */
export function isSame(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(hex) {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
