// Handles that store and remove at once, not knowing of each other's, and tabs that die between two transactions.

import { databaseOf, openRaw, records, rewrite } from "/tests/web/raw.js";

const SIZE = 1000;

const keys = (count) => Array.from({ length: count }, (_, at) => `key ${at}`);
const held = async (name, store) => (await records(name, store)).length;

/** Stores under many keys at once, and so in a pack. */
const putAll = (t, cache, wanted, seed) => cache.putMany(wanted.map((key) => [key, t.bytes(SIZE, seed)]));

/** All of these find the value of this seed; nothing, if it is not given. */
async function finds(t, caches, key, seed, what = key) {
  for (const [at, cache] of caches.entries()) {
    t.equal(await cache.get(key), seed === undefined ? undefined : t.bytes(SIZE, seed), `${what}, handle ${at}`);
  }
}

/** No record is there but those that the entries of a handle opened now are in. */
async function nothingElse(t, name, count) {
  const cache = await t.open({ name });
  await cache.flush();
  t.equal((await cache.stats()).entries, count, "counted");
  t.equal((await cache.entries()).length, count, "listed");
  await cache.clear();
  t.equal(await held(name), 0);
}

async function append(name, store, values) {
  const database = await openRaw(databaseOf(name));
  const transaction = database.transaction(store, "readwrite");
  for (const value of values) transaction.objectStore(store).put(value);
  await new Promise((resolve) => (transaction.oncomplete = resolve));
  database.close();
}

/** Leaves the state of a tab that stored this entry, and died before it learned that there was another one. */
async function storeAndDie(t, name, key, seed) {
  const elsewhere = t.database();
  const cache = await t.open({ name: elsewhere });
  await cache.put(key, t.bytes(SIZE, seed));
  const [[, record]] = await records(elsewhere);
  const row = (await records(elsewhere, "directory")).at(-1)[1].slice();
  const database = await openRaw(databaseOf(name));
  const transaction = database.transaction(["entries", "directory"], "readwrite");
  const rows = transaction.objectStore("directory");
  rows.put(row).onsuccess = ({ target: { result: number } }) => {
    new DataView(row.buffer).setFloat64(40, number * 65_536, true);
    rows.put(row, number);
    transaction.objectStore("entries").put(record, number * 65_536);
  };
  await new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
  database.close();
}

/** Removes all pieces just before a record names them, as a newly opened tab does; this number of times. */
function sweeping(t, times) {
  const real = IDBDatabase.prototype.transaction;
  let swept = 0;
  IDBDatabase.prototype.transaction = function (stores, mode, ...more) {
    if (swept < times && mode === "readwrite" && String(stores) === "entries,directory,pieces") {
      swept += 1;
      real.call(this, "pieces", mode).objectStore("pieces").clear();
    }
    return real.call(this, stores, mode, ...more);
  };
  t.after(() => (IDBDatabase.prototype.transaction = real));
}

export const tests = {
  "an entry that another handle replaces does not come back when one beside it is replaced at once": async (t) => {
    for (const count of [1, 12]) {
      const name = t.database();
      const [one, two] = [await t.open({ name }), await t.open({ name })];
      const wanted = keys(20);
      await putAll(t, one, wanted, 1);
      const some = wanted.slice(4, 4 + count);
      // One knows of the pack, two does not.
      const stored = await Promise.all([putAll(t, two, some, 2), one.put("key 0", t.bytes(SIZE, 3))]);
      t.equal(stored.flat(), Array(count + 1).fill(true));
      for (const key of some) await finds(t, [one, two, await t.open({ name })], key, 2);
      await finds(t, [one, two], "key 0", 3);
      await finds(t, [one, two], "key 19", 1);
      await nothingElse(t, name, 20);
    }
  },

  "an entry that was stored in a pack is there when one beside it was replaced at once": async (t) => {
    const name = t.database();
    const [zero, one, two] = [await t.open({ name }), await t.open({ name }), await t.open({ name })];
    await zero.put("key 0", t.bytes(SIZE, 1));
    const stored = await Promise.all([putAll(t, one, keys(20), 2), two.put("key 7", t.bytes(SIZE, 3))]);
    t.equal(stored.flat(), Array(21).fill(true));
    const all = [zero, one, two, await t.open({ name })];
    await finds(t, all, "key 0", 2);
    await finds(t, all, "key 7", 3);
    await finds(t, all, "key 8", 2);
    await nothingElse(t, name, 20);
  },

  "what a tab that died left beside its entry is gone once the entry is removed or replaced": async (t) => {
    const ends = {
      delete: (cache) => cache.delete("key 0"),
      put: (cache) => cache.put("key 0", t.bytes(SIZE, 4)),
      "put many": (cache) => putAll(t, cache, keys(20), 4),
    };
    for (const [what, end] of Object.entries(ends)) {
      for (const before of [1, 20]) {
        for (const knows of [true, false]) {
          const name = t.database();
          const [one, two] = [await t.open({ name }), await t.open({ name })];
          await putAll(t, one, keys(before), 1);
          await finds(t, [two], "key 0", 1);
          await storeAndDie(t, name, "key 0", 2);
          if (knows) t.equal(await one.has("not there"), false);
          await end(one);
          const seed = what.startsWith("put") ? 4 : undefined;
          await finds(t, [two, one], "key 0", seed, `${what}, ${before} before, ${knows ? "known" : "unknown"}`);
        }
      }
    }
  },

  "a row that cannot be read costs nothing when the rows become one": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await one.put("a", t.bytes(SIZE, 1));
    await one.flush();
    // Rows that say nothing are enough for that.
    await append(name, "directory", Array.from({ length: 200 }, () => new Uint8Array(8)));
    t.equal(await one.has("not there"), false);
    await two.put("b", t.bytes(SIZE, 2));
    const last = (await records(name, "directory")).at(-1)[0];
    await rewrite(name, (row, number) => (number === last ? "junk" : row), "directory");
    await one.flush();
    await one.flush();
    await finds(t, [one, two, await t.open({ name })], "b", 2);
    t.ok((await held(name, "directory")) < 10, "they became one");
    await nothingElse(t, name, 2);
  },

  "what is removed does not come back when rows are rewritten": async (t) => {
    for (const open of [true, false]) {
      const name = t.database();
      let cache = await t.open({ name });
      const other = await t.open({ name });
      await other.put("a", t.bytes(SIZE, 1));
      if (!open) {
        await cache.close();
        await other.close();
      }
      await rewrite(name, () => "junk", "directory");
      if (!open) cache = await t.open({ name });
      await cache.delete("a");
      await cache.flush();
      await finds(t, [cache, await t.open({ name })], "a", undefined);
      t.equal(await held(name), 0);
    }
  },

  "what is replaced does not come back when rows are rewritten": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await one.put("first", t.bytes(SIZE, 0));
    await two.put("a", t.bytes(SIZE, 1));
    await t.sleep(2);
    await rewrite(name, () => "junk", "directory");
    t.equal(await one.put("a", t.bytes(SIZE, 2)), true);
    await one.flush();
    await finds(t, [one, two, await t.open({ name })], "a", 2);
    await nothingElse(t, name, 2);
  },

  "what is stored later does not replace what was put meanwhile": async (t) => {
    const waiting = [];
    const real = globalThis.setTimeout;
    const cache = await t.open();
    await t.sleep(300);
    globalThis.setTimeout = (work, ms, ...given) => (ms >= 5000 ? (waiting.push(work), 0) : real(work, ms, ...given));
    t.after(() => (globalThis.setTimeout = real));
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = () => {
      throw new DOMException("full", "QuotaExceededError");
    };
    t.after(() => (IDBObjectStore.prototype.put = put));
    t.equal(await cache.put("key", "old"), false);
    IDBObjectStore.prototype.put = put;
    await t.sleep(10);
    t.ok(waiting.length > 0);
    for (const work of waiting.splice(0)) work();
    // Begins while memory is compared with the database.
    t.equal(await cache.put("key", "new"), true);
    await t.sleep(300);
    t.equal(await cache.get("key", "text"), "new");
  },

  "accounts agree with what is there, however the changes of two handles cross": async (t) => {
    const name = t.database();
    const maxEntries = 3;
    const [one, two] = [await t.open({ name, maxEntries }), await t.open({ name, maxEntries })];
    await two.put("a", t.bytes(100, 1));
    await one.flush();
    await two.flush();
    await one.delete("a");
    await two.put("a", t.bytes(100, 2));
    await two.flush();
    await one.flush();
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, 1, "stored after it was removed");
    await one.put("b", t.bytes(100, 3));
    t.equal(await two.delete("b"), true);
    await two.flush();
    await one.flush();
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, 1, "removed after it was stored");
    for (const key of ["c", "d", "e"]) await one.put(key, t.bytes(100, 4));
    await one.flush();
    t.equal((await records(name)).length, maxEntries);
  },

  "pieces that another tab takes for those of a dead one are stored again": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    const mebibyte = t.bytes(1 << 20, 1);
    const large = new Blob(Array(130).fill(mebibyte));
    sweeping(t, 1);
    t.equal(await cache.put("large", large), true);
    const found = await (await t.open({ name })).get("large", "blob");
    t.equal(found?.size, large.size);
    t.equal(new Uint8Array(await found.slice(-mebibyte.length).arrayBuffer()), mebibyte);
  },

  "a value whose pieces go again and again is not acknowledged": async (t) => {
    const name = t.database();
    const cache = await t.open({ name, onWarning: () => undefined });
    sweeping(t, 2);
    t.equal(await cache.put("large", new Blob(Array(130).fill(t.bytes(1 << 20, 1)))), false);
    t.equal(await held(name), 0);
    t.equal(await held(name, "pieces"), 0);
  },
};
