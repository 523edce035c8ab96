// Damage to the database by other code is a miss with a reason, and the entry is removed.

import { records, rewrite } from "/tests/web/raw.js";

/** Alterations of the record of a small value, an envelope in bytes, with the miss reason. */
const SMALL = {
  "that is longer than any": [() => new Uint8Array(18 << 20), "malformed"],
  "a byte of the value flipped": [(bytes) => flipped(bytes, bytes.length - 1), "checksum_mismatch"],
  "cut": [(bytes) => bytes.slice(0, bytes.length - 10), "truncated"],
  "a number": [() => 7, undefined],
  "an empty object": [() => ({}), undefined],
  "a text": [() => "text", undefined],
  "no bytes": [() => new Uint8Array(0), undefined],
};

/** The same of a large one: its head in `h`, the value in `b`, whole or in parts. */
const LARGE = {
  "a byte of the value flipped": [(record) => withParts(record, flippedPart), "checksum_mismatch"],
  "cut": [(record) => withParts(record, (part) => part.slice(0, (part.size ?? part.byteLength) - 10)), "truncated"],
  "without its parts": [({ b: _, ...record }) => record, undefined],
  "a byte of its head flipped": [(record) => ({ ...record, h: flipped(new Uint8Array(record.h), 40) }), undefined],
  "parts that are texts": [(record) => withParts(record, () => "text"), undefined],
};

export const tests = {};
for (const [size, kind, injuries] of [
  [5_000, "small", SMALL],
  [300_000, "large", LARGE],
]) {
  for (const [name, [injure, reason]] of Object.entries(injuries)) {
    tests[`a ${kind} record ${name}: a miss, healed`] = (t) => damaged(t, { size, injure, reason });
  }
}

async function damaged(t, { size, injure, reason }) {
  const name = t.database();
  const value = t.bytes(size, 1);
  let cache = await t.open({ name });
  t.equal(await cache.put("key", value), true);
  await cache.close();
  t.equal((await records(name)).length, 1);
  await rewrite(name, injure);

  cache = await t.open({ name });
  t.equal(await cache.get("key"), undefined, "never a wrong value, never an error");
  const { misses } = await cache.stats();
  t.equal(Object.values(misses), [1], JSON.stringify(misses));
  if (reason !== undefined) t.equal(misses, { [reason]: 1 });
  t.ok(!("absent" in misses), "the reason says that something was there");
  await cache.flush();
  t.equal((await records(name)).length, 0, "what is damaged is removed");
  t.equal(await cache.get("key"), undefined);
  t.equal((await cache.stats()).misses.absent, 1, "and then it is only absent");
  t.equal(await cache.getOrCreate("key", () => value), value);
  t.equal(await cache.get("key"), value, "healed");
  t.equal((await cache.stats()).entries, 1);
}

function flipped(bytes, at) {
  const copy = bytes.slice();
  copy[at] ^= 1;
  return copy;
}

async function flippedPart(part) {
  const bytes = new Uint8Array(part instanceof Blob ? await part.arrayBuffer() : part);
  const changed = flipped(bytes, bytes.length >> 1);
  return part instanceof Blob ? new Blob([changed]) : changed.buffer;
}

async function withParts(record, change) {
  const b = Array.isArray(record.b) ? await Promise.all(record.b.map(change)) : await change(record.b);
  return { ...record, b };
}
