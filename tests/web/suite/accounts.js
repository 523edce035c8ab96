// The accounting that tabs share: counting, eviction, and recovery of a lost log.

import { databaseOf, openRaw, records, rewrite } from "/tests/web/raw.js";

/** A cap with room for this number of entries of `SIZE` bytes under a key of one letter. */
const SIZE = 1000;
const ENTRY = 128 + SIZE;

const value = (t, seed) => t.bytes(SIZE, seed);
const held = async (name, store) => (await records(name, store)).length;
const rows = (name) => records(name, "log");

async function fill(t, cache, keys) {
  for (const [at, key] of [...keys].entries()) t.equal(await cache.put(key, value(t, at)), true);
}

export const tests = {
  "entries of a lost log are counted at the next opening": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.close();
    await rewrite(name, () => undefined, "log");
    cache = await t.open({ name, maxBytes: 2 * ENTRY });
    const { entries, bytes } = await cache.stats();
    t.equal([entries, bytes], [2, 2 * ENTRY], "and what is too much goes");
    t.equal(await held(name), 2);
  },

  "a rebuild counts the entries of a lost row, not the removed": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.delete("a");
    await fill(t, cache, "d");
    await cache.close();
    for (const lost of [2, 4]) {
      await rewrite(name, (row, number) => (number === lost ? undefined : row), "log");
      cache = await t.open({ name });
      t.equal((await cache.stats()).entries, 3, `row ${lost}`);
      t.equal((await cache.entries()).map(({ text }) => text).sort(), ["b", "c", "d"]);
      await cache.close();
    }
  },

  "a missing entry is removed from the accounts by a look-up": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.close();
    await rewrite(name, (record, key) => (key === "c" ? record : undefined));
    cache = await t.open({ name });
    t.equal((await cache.stats()).entries, 3);
    t.equal(await cache.get("a"), undefined);
    t.equal((await cache.stats()).entries, 2);
    t.equal(await cache.verify(), [], "which is not damage");
    t.ok(await cache.has("c"));
    await cache.close();
    cache = await t.open({ name, maxEntries: 2 });
    await fill(t, cache, "de");
    t.equal(await held(name), 2);
  },

  "an unreadable row has the accounts rebuilt from the entries": async (t) => {
    const junks = [new Uint8Array(64).fill(7), [], "text", 7, [7], [[1]], [["a", "b"]], [["a", 1, 2, 7]], { length: 1 }];
    for (const junk of junks) {
      const name = t.database();
      let cache = await t.open({ name });
      await fill(t, cache, "abc");
      await cache.close();
      t.ok((await rows(name)).length > 0);
      await rewrite(name, () => junk, "log");
      cache = await t.open({ name });
      t.equal((await cache.stats()).entries, 3);
      t.equal(await cache.get("b"), value(t, 1));
      await cache.close();
      const [[, first]] = await rows(name);
      t.equal(first[0], [], "a snapshot");
      cache = await t.open({ name });
      t.equal((await cache.stats()).entries, 3);
    }
  },

  "the head of a large value in a row is verified": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    t.equal(await cache.put("large", t.bytes(100_000, 1), { label: "L", headers: { "x-note": "one" } }), true);
    t.equal((await cache.entries()).map(({ label, size }) => [label, size]), [["L", 100_000]]);
    await cache.close();
    const [[, [[, , , { h, c }]]]] = await rows(name);
    const flipped = (at) => h.map((byte, nth) => (nth === at ? byte ^ 1 : byte));
    const spoiled = [{ h: h.slice(0, 3), c }, { h, c: c + 1 }, ...[...h.keys()].map((at) => ({ h: flipped(at), c }))];
    for (const one of spoiled) {
      await rewrite(name, (row) => [[row[0][0], row[0][1], row[0][2], one]], "log");
      cache = await t.open({ name });
      const [{ label, size, storedSize, created, headers }] = await cache.entries();
      t.equal([label, size, storedSize, headers.get("x-note")], ["L", 100_000, 100_000 + h.length, "one"]);
      t.ok(Math.abs(created - Date.now()) < 60_000);
      await cache.close();
    }
  },

  "a long head of a large value is read from its record": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    const label = "L".repeat(100_000);
    t.equal(await cache.put("large", t.bytes(100_000, 1), { label }), true);
    const [[, [[, , , { h }]]]] = await rows(name);
    t.equal(h.length, 0, "the row is short");
    t.equal((await cache.entries()).map((entry) => [entry.label, entry.size]), [[label, 100_000]]);
  },

  "a row that is spoiled while a cache is open costs no entry": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    await fill(t, cache, "abc");
    await cache.flush();
    const other = await t.open({ name });
    await fill(t, other, "d");
    await other.flush();
    await rewrite(name, (row, number) => (number > 1 ? new Uint8Array(64) : row), "log");
    await fill(t, cache, "e");
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
    for (const cache of [one, two]) {
      const { entries, bytes } = await cache.stats();
      t.equal([entries, bytes], [4, 4 * ENTRY]);
    }
  },

  "changes of two handles are counted in their order": async (t) => {
    const name = t.database();
    const maxEntries = 3;
    const [one, two] = [await t.open({ name, maxEntries }), await t.open({ name, maxEntries })];
    await two.put("a", t.bytes(100, 1));
    await one.delete("a");
    await two.put("a", t.bytes(100, 2));
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, 1, "stored after it was removed");
    await one.put("b", t.bytes(100, 3));
    t.equal(await two.delete("b"), true);
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, 1, "removed after it was stored");
    for (const key of ["c", "d", "e"]) await one.put(key, t.bytes(100, 4));
    t.equal(await held(name), maxEntries);
  },

  "the cap is that of the database, at every moment": async (t) => {
    const name = t.database();
    const maxBytes = 4 * ENTRY;
    const [one, two] = [await t.open({ name, maxBytes }), await t.open({ name, maxBytes })];
    for (const [at, key] of [..."abcdefgh"].entries()) {
      const results = await Promise.all([one.put(key, value(t, at)), two.put(key.toUpperCase(), value(t, at))]);
      t.equal(results, [true, true]);
      t.ok((await held(name)) <= 4, "also right after a put");
    }
    t.equal(await held(name), 4);
    for (const cache of [one, two]) t.equal((await cache.stats()).bytes, maxBytes);
  },

  "what a handle without a cap stores counts for one with a cap": async (t) => {
    const name = t.database();
    const free = await t.open({ name });
    const capped = await t.open({ name, maxEntries: 3 });
    await fill(t, free, "abcde");
    await fill(t, capped, "f");
    t.equal((await capped.entries()).map(({ text }) => text), ["d", "e", "f"]);
    t.equal(await held(name), 3);
    t.equal((await free.stats()).entries, 3);
  },

  "what one handle uses the other evicts last": async (t) => {
    const name = t.database();
    const maxBytes = 3 * ENTRY;
    const one = await t.open({ name, maxBytes });
    await fill(t, one, "abc");
    const two = await t.open({ name, maxBytes });
    t.equal(await two.get("a"), value(t, 0));
    await two.flush();
    t.equal(await one.put("d", value(t, 3)), true);
    t.equal(await Promise.all([..."abcd"].map((key) => one.has(key))), [true, false, true, true]);
  },

  "one of many entries stored at once is evicted alone": async (t) => {
    const name = t.database();
    const keys = Array.from({ length: 40 }, (_, at) => `key ${at}`);
    let cache = await t.open({ name, maxEntries: 40 });
    await cache.putMany(keys.map((key, at) => [key, value(t, at)]));
    await cache.get("key 0");
    await cache.put("new", value(t, 77));
    t.equal(await cache.get("key 1"), undefined);
    t.equal(await cache.get("key 0"), value(t, 0));
    t.equal((await cache.stats()).entries, 40);
    await cache.close();
    cache = await t.open({ name });
    const found = await cache.getMany(keys);
    t.equal(found.filter((bytes) => bytes === undefined).length, 1);
    t.equal(await cache.get("new"), value(t, 77));
  },

  "clearing is seen by a handle that has counted": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await fill(t, one, "abc");
    await one.flush();
    await two.clear();
    t.equal(await one.get("a"), undefined);
    t.equal((await one.stats()).entries, 0);
    await fill(t, one, "d");
    t.equal((await two.stats()).entries, 1);
  },

  "rows are rewritten, and misses are explained after that": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    const fields = (level) => t.warmstart.key("journal", 1, { name: "softmax", level });
    await cache.put(fields(1), value(t, 1));
    for (let round = 0; round < 1200; round++) await cache.put(`key ${round % 5}`, value(t, round));
    await cache.flush();
    t.ok((await rows(name)).length <= 600, "without a cap");
    await cache.resize({ maxEntries: 10 });
    for (let round = 0; round < 200; round++) await cache.put(`key ${round % 5}`, value(t, round));
    t.ok((await rows(name)).length <= 70, `${(await rows(name)).length} rows with a cap`);
    t.equal((await cache.stats()).entries, 6);
    const { reason, nearest } = await cache.explain(fields(2));
    t.equal(reason, "absent");
    t.equal(nearest?.changes, [{ label: "level", old: "1", new: "2" }]);
  },

  "an idle handle finds all entries after a rewrite of rows": async (t) => {
    const name = t.database();
    const sleeper = await t.open({ name });
    await sleeper.put("old", value(t, 1));
    const busy = await t.open({ name, maxEntries: 1000 });
    for (let at = 0; at < 200; at += 1) await busy.put(`key ${at % 50}`, value(t, at));
    t.equal(await held(name), 51);
    t.equal(await sleeper.get("key 7"), value(t, 157));
    t.equal((await sleeper.stats()).entries, 51);
    await sleeper.put("key 7", value(t, 7));
    t.equal(await busy.get("key 7"), value(t, 7));
    t.equal(await busy.get("old"), value(t, 1));
    t.equal((await busy.stats()).entries, 51);
  },

  "an entry of a newer version is a miss, is counted and stays": async (t) => {
    const name = t.database();
    const large = t.bytes(100_000, 1);
    let cache = await t.open({ name });
    await cache.putMany([["a", large], ["b", large]]);
    await cache.close();
    const engine = await import("/warmstart/engine/warmstart_wasm.js");
    const { default: hex } = await import("/warmstart/engine/wasm.js");
    engine.initSync({ module: Uint8Array.from(hex.match(/../g), (digits) => parseInt(digits, 16)) });
    await rewrite(name, (record, key) => (key === "a" ? newer(engine, record) : record));
    await rewrite(name, () => undefined, "log");
    cache = await t.open({ name });
    const found = await cache.getMany(["a", "b"]);
    t.equal(found.map((bytes) => bytes !== undefined), [false, true]);
    const { misses, entries, bytes } = await cache.stats();
    t.equal([misses, entries], [{ newer_version: 1 }, 2]);
    t.ok(bytes > 200_000, "by what is seen of it");
    t.equal(await held(name), 2);
    t.equal((await cache.entries()).map(({ text }) => text), ["b"], "it is not listed");
  },

  "opening removes only old pieces that no record names": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    t.equal(await cache.put("a", new Blob(Array(130).fill(t.bytes(1 << 20, 1)))), true);
    await cache.close();
    const kept = (await records(name, "pieces")).map(([key]) => key);
    t.equal(kept.length, 2);
    const database = await openRaw(databaseOf(name));
    const transaction = database.transaction("pieces", "readwrite");
    const old = `${Date.now() - 2 * 60 * 60 * 1000}-0.5`;
    const young = [`${Date.now()}-0.5`, 0];
    for (const key of [[old, 0], [old, 1], ["lost", 0], "of no kind", young])
      transaction.objectStore("pieces").put(new ArrayBuffer(8), key);
    await new Promise((resolve) => (transaction.oncomplete = resolve));
    database.close();
    cache = await t.open({ name });
    await cache.flush();
    const left = (await records(name, "pieces")).map(([key]) => key);
    t.equal(left, [...kept, young], "young ones may be on their way into an entry");
    t.equal((await cache.get("a", "blob")).size, 130 << 20);
    t.equal(await cache.put("a", "small"), true);
    await cache.flush();
    t.equal(await held(name, "pieces"), 1, "and go with their entry");
  },

  "pieces that a tab is storing are not removed": async (t) => {
    const name = t.database();
    const writer = await t.open({ name });
    const others = [await t.open({ name }), await t.open({ name })];
    // The second piece is the last one: another handle looks for pieces of dead tabs before the record is stored.
    const { put } = IDBObjectStore.prototype;
    t.after(() => (IDBObjectStore.prototype.put = put));
    let looked;
    IDBObjectStore.prototype.put = function (value, ...key) {
      if (this.name === "pieces") looked = others.pop()?.stats();
      return put.call(this, value, ...key);
    };
    t.equal(await writer.put("large", new Blob(Array(132).fill(t.bytes(1 << 20, 1)))), true);
    await looked;
    t.equal(others.length, 0);
    t.equal((await writer.get("large", "blob")).size, 132 << 20);
    t.equal(await writer.verify(), []);
    t.equal(await held(name, "pieces"), 2);
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

  "a row with gaps, or with a size that is none, costs no entry": async (t) => {
    const long = [["a", 1, 5]];
    long.length = 2 ** 32 - 1;
    for (const row of [[, ["a", 1, 5]], long, [["a", 1, Infinity]], [["a", 1, Number.MAX_VALUE], ["b", 1, Number.MAX_VALUE]]]) {
      const name = t.database();
      let cache = await t.open({ name });
      await fill(t, cache, "ab");
      await cache.close();
      await rewrite(name, () => row, "log");
      cache = await t.open({ name, maxBytes: 9 * ENTRY });
      await fill(t, cache, "c");
      t.equal((await cache.entries()).map(({ text }) => text).sort(), ["a", "b", "c"]);
      t.equal((await cache.stats()).bytes, 3 * ENTRY);
      await cache.close();
    }
  },

  "an entry that a lost row replaced is listed as it is": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await cache.put("a", t.bytes(60_000, 1), { label: "old" });
    await cache.put("b", value(t, 2));
    await cache.put("a", t.bytes(70_000, 1), { label: "new" });
    await cache.put("c", value(t, 3));
    await cache.close();
    const [, , [lost]] = await rows(name);
    await rewrite(name, (row, number) => (number === lost ? undefined : row), "log");
    cache = await t.open({ name });
    const listed = (await cache.entries()).map(({ text, label, size }) => [text, label, size]);
    t.equal(listed.sort(), [["a", "new", 70_000], ["b", undefined, SIZE], ["c", undefined, SIZE]]);
    t.equal((await cache.stats()).bytes, 70_128 + 2 * ENTRY);
  },

  "a removal without a row keeps what a tab stored since": async (t) => {
    for (const limits of [{}, { maxEntries: 9 }]) {
      const name = t.database();
      const one = await t.open({ name, ...limits });
      const two = await t.open({ name, ...limits });
      await one.putMany([["key", "old"], ["other", "1"]]);
      const real = IDBObjectStore.prototype.put;
      t.after(() => (IDBObjectStore.prototype.put = real));
      IDBObjectStore.prototype.put = function (...given) {
        if (this.name === "log") throw new DOMException("full", "QuotaExceededError");
        return real.apply(this, given);
      };
      t.equal(await one.delete("key"), true);
      IDBObjectStore.prototype.put = real;
      t.equal([await two.put("key", "new"), await one.put("last", "2")], [true, true]);
      for (const cache of [one, two]) {
        t.equal((await cache.entries()).map(({ text }) => text).sort(), ["key", "last", "other"]);
      }
    }
  },
};

/** The record as if the next version had written it: its version is raised, the checksum of its head right. */
function newer(engine, record) {
  const h = record.h.slice();
  h[16] += 1;
  return { ...record, h, c: engine.head_sum(h) };
}
