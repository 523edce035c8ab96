// The common parts of measurements: payloads, taking turns, and checking results.

/** The pause after each turn, in milliseconds: a store may still be busy, and no other is measured meanwhile. */
const PAUSE_MS = 250;

/** Makes incompressible bytes that no other value has. */
export function payload(length) {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
}

/** Makes names like those of caches: texts in no order, the same for the same round. */
export function keysOf(round, count) {
  return Array.from({ length: count }, (_, at) => {
    let word = Math.imul(round * count + at + 1, 0x9e3779b1);
    word = Math.imul(word ^ (word >>> 15), 0x2c1b3c6d);
    word ^= word >>> 13;
    return `${(word >>> 0).toString(16).padStart(8, "0")}-kernel-${round}-${at}`;
  });
}

/**
 * Runs every task once: `{ name: milliseconds }`. What a task leaves behind, such as writes of the browser, slows later
 * ones, so the order is random, and in every second round that of the round before, reversed. A rotation would favour a
 * store by its place in the list.
 */
export async function inTurns(tasks) {
  const names = Object.keys(tasks);
  const isDecided = reversed.length === names.length && reversed.every((name) => name in tasks);
  const order = isDecided ? reversed : shuffled(names);
  reversed = isDecided ? [] : order.toReversed();
  const took = {};
  for (const name of order) {
    took[name] = await tasks[name]();
    await rest();
  }
  return took;
}

/** The order of the next round, if the last one decided it. */
let reversed = [];

/** Returns the items in random order. */
export function shuffled(items) {
  const ranked = items.map((item) => ({ item, rank: Math.random() }));
  return ranked.toSorted((one, other) => one.rank - other.rank).map(({ item }) => item);
}

/** Measures `work` in milliseconds; `check` checks its result outside the measured time. */
export async function timed(work, check) {
  const begun = performance.now();
  const result = await work();
  const took = performance.now() - begun;
  check?.(result);
  return took;
}

/** Fails unless a store returned this number of bytes. */
export function expectBytes(value, length, who) {
  if (value?.byteLength !== length) throw new Error(`${who} gave ${value?.byteLength} bytes and not ${length}`);
}

export function rest(milliseconds = PAUSE_MS) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
