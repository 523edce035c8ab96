// One byte of each of 50 records is flipped through IndexedDB alone: 50 misses with a reason, and no wrong value.

import { records, rewrite } from "/tests/web/raw.js";

const COUNT = 50;
const sizeOf = (at) => (at % 5 === 0 ? 60_000 + at : 100 * at);
const DAMAGE = ["truncated", "foreign", "malformed", "checksum_mismatch", "key_mismatch"];

/** A record with another bit in it: of a large value in its head or in its payload. */
async function flipped(record, at) {
  if (record instanceof Uint8Array) return flip(record, (at * 7919) % record.length);
  if (at % 10 === 0) return { ...record, h: flip(record.h, (at * 7919) % record.h.length) };
  const payload = new Uint8Array(await new Blob(record.b).arrayBuffer());
  return { ...record, b: [new Blob([flip(payload, (at * 7919) % payload.length)])] };
}

function flip(bytes, at) {
  const other = bytes.slice();
  other[at] ^= 1 << at % 8;
  return other;
}

const keys = Array.from({ length: COUNT }, (_, at) => `record ${at}`);

async function damaged(t) {
  const name = t.database();
  let cache = await t.open({ name });
  await cache.putMany(keys.map((key, at) => [key, t.bytes(sizeOf(at), at), { label: key }]));
  await cache.close();
  await rewrite(name, (record, key) => flipped(record, keys.indexOf(key)));
  return { name, cache: await t.open({ name }) };
}

async function expectMisses(t, name, cache, reasons) {
  t.equal(reasons.length, COUNT);
  t.equal(reasons.filter((reason) => !DAMAGE.includes(reason)), []);
  const { hits, entries, misses } = await cache.stats();
  t.equal([hits, entries], [0, 0]);
  t.equal(Object.values(misses).reduce((sum, n) => sum + n, 0), COUNT);
  t.equal(await records(name), [], "what is damaged is removed");
}

export const tests = {
  "one by one, in every form": async (t) => {
    const { name, cache } = await damaged(t);
    const reasons = [];
    cache.events.on("miss", ({ reason }) => reasons.push(reason));
    const forms = ["bytes", "blob", "text", "bytes"];
    for (const [at, key] of keys.entries()) t.equal(await cache.get(key, forms[at % forms.length]), undefined, key);
    await expectMisses(t, name, cache, reasons);
  },

  "all at once": async (t) => {
    const { name, cache } = await damaged(t);
    const reasons = [];
    cache.events.on("miss", ({ reason }) => reasons.push(reason));
    t.equal(await cache.getMany(keys), keys.map(() => undefined));
    await expectMisses(t, name, cache, reasons);
  },

  "as responses that are read": async (t) => {
    const { name, cache } = await damaged(t);
    const reasons = [];
    cache.events.on("miss", ({ reason }) => reasons.push(reason));
    for (const key of keys) {
      const response = await cache.get(key, "response");
      if (response) await t.rejects(response.body.getReader().read(), "damaged", key);
    }
    await expectMisses(t, name, cache, reasons);
  },

  "by verify": async (t) => {
    const { name, cache } = await damaged(t);
    const found = await cache.verify();
    t.equal(found.map(({ key }) => new TextDecoder().decode(key)).sort(), [...keys].sort());
    await expectMisses(t, name, cache, found.map(({ reason }) => reason));
  },

  "getOrCreate builds each of them again": async (t) => {
    const { cache } = await damaged(t);
    for (const [at, key] of keys.entries()) {
      t.equal(await cache.getOrCreate(key, () => t.bytes(sizeOf(at), at)), t.bytes(sizeOf(at), at));
      t.equal(await cache.get(key), t.bytes(sizeOf(at), at));
    }
    t.equal((await cache.stats()).builds, COUNT);
  },
};
