// The accounting that tabs share: counting, eviction, and recovery of a lost journal.

import { databaseOf, openRaw, records, rewrite } from "/tests/web/raw.js";

/** A cap with room for this number of entries of `SIZE` bytes under a key of one letter. */
const SIZE = 1000;
const ENTRY = 128 + SIZE;

const value = (t, seed) => t.bytes(SIZE, seed);
const held = async (name) => (await records(name)).length;
const rows = (name) => records(name, "journal");

async function fill(t, cache, keys) {
  for (const [at, key] of [...keys].entries()) t.equal(await cache.put(key, value(t, at)), true);
}

export const tests = {
  "uncounted entries are counted at the next opening": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.close();
    await rewrite(name, () => undefined, "journal");
    cache = await t.open({ name, maxBytes: 2 * ENTRY });
    const { entries, bytes } = await cache.stats();
    t.equal([entries, bytes], [2, 2 * ENTRY], "and what is too much goes");
    t.equal(await held(name), 2);
  },

  "a missing entry is removed from the journal by a look-up": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.close();
    let left = 3;
    await rewrite(name, (record) => ((left -= 1) > 0 ? undefined : record));
    cache = await t.open({ name });
    t.equal(await cache.get("a"), undefined);
    t.equal((await cache.stats()).entries, 2);
    t.equal(await cache.verify(), [], "which is not damage");
    t.equal((await cache.stats()).entries, 1);
    t.ok(await cache.has("c"));
    await cache.close();
    cache = await t.open({ name, maxEntries: 2 });
    await fill(t, cache, "de");
    await cache.flush();
    t.equal(await held(name), 2);
  },

  "an unreadable row has the journal rebuilt": async (t) => {
    for (const junk of [new Uint8Array(64).fill(7), new Uint8Array(10), "text", 7]) {
      const name = t.database();
      let cache = await t.open({ name });
      await fill(t, cache, "abc");
      await cache.close();
      t.ok((await rows(name)).length > 0);
      await rewrite(name, () => junk, "journal");
      cache = await t.open({ name });
      t.equal((await cache.stats()).entries, 3);
      t.equal(await cache.get("b"), value(t, 1));
      await cache.close();
      const [[, first]] = await rows(name);
      t.equal([...first.slice(0, 4)], [0x89, 0x57, 0x53, 0x4a], "a snapshot row");
      cache = await t.open({ name });
      t.equal((await cache.stats()).entries, 3);
    }
  },

  "a row that is spoiled while a cache is open costs no entry": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.flush();
    const other = await t.open({ name });
    await fill(t, other, "d");
    await other.flush();
    await rewrite(name, (row, number) => (number > 1 ? new Uint8Array(64) : row), "journal");
    await fill(t, cache, "e");
    await cache.flush();
    await cache.flush();
    t.equal((await cache.stats()).entries, 5);
    t.equal(await held(name), 5);
  },

  "two handles come to the same accounts": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await fill(t, one, "abc");
    await fill(t, two, "cde");
    await one.delete("a");
    for (const cache of [one, two, one, two]) await cache.flush();
    for (const cache of [one, two]) {
      const { entries, bytes } = await cache.stats();
      t.equal([entries, bytes], [4, 4 * ENTRY]);
    }
  },

  "what waits to be written is counted behind what others wrote before": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await fill(t, one, "k");
    await one.flush();
    await two.flush();
    t.equal(await two.delete("k"), true);
    await two.flush();
    await fill(t, one, "k");
    await one.flush();
    t.equal((await one.stats()).entries, 1);
    t.equal((await two.stats()).entries, 1);
  },

  "the cap is that of the database, not of a handle": async (t) => {
    const name = t.database();
    const maxBytes = 4 * ENTRY;
    const [one, two] = [await t.open({ name, maxBytes }), await t.open({ name, maxBytes })];
    for (const [at, key] of [..."abcdefgh"].entries()) {
      const results = await Promise.all([one.put(key, value(t, at)), two.put(key.toUpperCase(), value(t, at))]);
      t.equal(results, [true, true]);
    }
    for (const cache of [one, two]) await cache.flush();
    t.equal(await held(name), 4);
    for (const cache of [one, two]) t.equal((await cache.stats()).bytes, maxBytes);
  },

  "what one handle uses the other evicts last": async (t) => {
    const name = t.database();
    const maxBytes = 3 * ENTRY;
    const one = await t.open({ name, maxBytes });
    await fill(t, one, "abc");
    await one.flush();
    const two = await t.open({ name, maxBytes });
    t.equal(await two.get("a"), value(t, 0));
    await two.flush();
    t.equal(await one.put("d", value(t, 3)), true);
    t.equal(await Promise.all([..."abcd"].map((key) => one.has(key))), [true, false, true, true]);
  },

  "clearing is seen by a handle that has counted": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await fill(t, one, "abc");
    await one.flush();
    await two.flush();
    await two.clear();
    t.equal(await one.get("a"), undefined);
    await one.flush();
    t.equal((await one.stats()).entries, 0);
    await fill(t, one, "d");
    await one.flush();
    t.equal((await two.stats()).entries, 1);
  },

  "rows do not grow without end, and a miss is explained after they were rewritten": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    const fields = (level) => t.warmstart.key("journal", 1, { name: "softmax", level });
    await cache.put(fields(1), value(t, 1));
    const puts = [];
    for (let at = 0; at < 1300; at++) puts.push(cache.put(`key ${at % 5}`, value(t, at)));
    await Promise.all(puts);
    for (let round = 0; round < 400; round++) {
      await cache.getMany(["key 0", "key 1", "key 2"]);
      if (round % 40 === 0) await cache.flush();
    }
    for (let round = 0; round < 400; round++) {
      await cache.put("key 1", value(t, round));
      await cache.put("key 2", value(t, round));
      if (round % 10 === 0) await cache.flush();
    }
    await cache.flush();
    const length = (await rows(name)).reduce((sum, [, row]) => sum + row.length, 0);
    t.ok(length < 64 * 1200, `${length} bytes of journal for six entries`);
    t.equal((await cache.stats()).entries, 6);
    const { reason, nearest } = await cache.explain(fields(2));
    t.equal(reason, "absent");
    t.equal(nearest?.changes, [{ label: "level", old: "1", new: "2" }]);
  },

  "an entry of a newer version is a miss, is counted and stays": async (t) => {
    const name = t.database();
    const large = t.bytes(100_000, 1);
    let cache = await t.open({ name });
    await cache.putMany([["a", large], ["b", large]]);
    await cache.close();
    const engine = await import("/warmstart/engine/warmstart_wasm.js");
    const [[key]] = await records(name);
    await rewrite(name, (record, at) => (indexedDB.cmp(at, key) === 0 ? newer(engine, record) : record));
    await rewrite(name, () => undefined, "journal");
    cache = await t.open({ name });
    const found = await cache.getMany(["a", "b"]);
    t.equal(found.filter((value) => value !== undefined).length, 1);
    const { misses, entries, bytes } = await cache.stats();
    t.equal([misses, entries], [{ newer_version: 1 }, 2]);
    t.ok(bytes > 200_000, "by what is seen of it");
    t.equal(await held(name), 2);
  },

  "pieces that no record names are removed at the next opening, others are kept": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "a");
    await cache.close();
    const [[number, record]] = await records(name);
    const [[, row]] = await records(name, "directory");
    const key = row.slice(8, 40).buffer;
    const lost = new Uint8Array(32).buffer;
    const database = await openRaw(databaseOf(name));
    const transaction = database.transaction(["entries", "pieces"], "readwrite");
    const pieces = transaction.objectStore("pieces");
    for (const id of [[lost, 1, 0], [lost, 1, 1], [key, 6, 0], [key, 7, 0], [key, 8, 0]]) pieces.put(new ArrayBuffer(8), id);
    const named = { h: record.slice(0, 128), c: 0, b: [], p: { id: 7, lengths: [8] } };
    transaction.objectStore("entries").put(named, number);
    await new Promise((resolve) => (transaction.oncomplete = resolve));
    database.close();
    cache = await t.open({ name });
    await cache.flush();
    let left;
    for (let round = 0; round < 100; round++) {
      left = (await records(name, "pieces")).map(([[owner, ...number]]) => [indexedDB.cmp(owner, key), ...number]);
      if (left.length === 1) break;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    t.equal(left, [[0, 7, 0]]);
    t.equal(await cache.delete("a"), true);
    t.equal(await records(name, "pieces"), [], "and go with their entry");
  },

  "the order of use outlives the page": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.get("a");
    await cache.close();
    cache = await t.open({ name });
    const order = (await cache.entries()).map((entry) => entry.text);
    t.equal(order, ["b", "c", "a"]);
  },
};

/** The record as if the next version had written it: its version is raised, the checksum of its head right. */
function newer(engine, record) {
  const h = record.h.slice();
  h[16] += 1;
  return { ...record, h, c: engine.head_sum(h) };
}
