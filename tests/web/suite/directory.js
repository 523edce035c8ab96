// Where entries are: packs, rows that say where, and handles that did not know of each other's.

import { records, rewrite } from "/tests/web/raw.js";

const SIZE = 1000;
const COUNT = 40;

const keys = (count = COUNT) => Array.from({ length: count }, (_, at) => `key ${at}`);
const held = async (name, store) => (await records(name, store)).length;

async function putAll(t, cache, wanted = keys(), seed = 0) {
  await cache.putMany(wanted.map((key, at) => [key, t.bytes(SIZE, seed + at)]));
}

/** Every value that is there is the one that was put last; gives how many there are. */
async function count(t, cache, seeds) {
  const names = Object.keys(seeds);
  const found = await cache.getMany(names);
  found.forEach((value, at) => value && t.equal(value, t.bytes(SIZE, seeds[names[at]]), names[at]));
  return found.filter((value) => value !== undefined).length;
}

const seedsOf = (wanted, seed = 0) => Object.fromEntries(wanted.map((key, at) => [key, seed + at]));

export const tests = {
  "small values that are put together share records, and are read one by one too": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    await putAll(t, cache);
    await cache.put("alone", t.bytes(SIZE, 99));
    t.equal(await held(name), 2);
    for (let round = 0; round < 2; round += 1) {
      t.equal(await count(t, cache, { ...seedsOf(keys()), alone: 99 }), COUNT + 1);
      for (const [at, key] of keys().entries()) {
        t.equal(await cache.get(key), t.bytes(SIZE, at));
        t.equal(await cache.has(key), true);
      }
      const { entries, bytes, misses } = await cache.stats();
      t.equal([entries, misses], [COUNT + 1, {}]);
      t.ok(bytes > SIZE * COUNT);
      t.equal((await cache.entries()).length, COUNT + 1);
      await cache.close();
      cache = await t.open({ name });
    }
  },

  "values of many sizes come back from packs as they were": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    const sizes = [0, 1, 7, 100, 4096, 16_000, 16_384, 20_000, 48_000, 50_000, 3, 0, 12_345, 9_999, 1_000, 30_000, 8, 2];
    await cache.putMany(sizes.map((size, at) => [`${at}`, t.bytes(size, at)]));
    t.ok((await held(name)) < sizes.length);
    for (let round = 0; round < 2; round += 1) {
      const found = await cache.getMany(sizes.map((_, at) => `${at}`));
      found.forEach((value, at) => t.equal(value, t.bytes(sizes[at], at), `${sizes[at]} bytes`));
      await cache.close();
      cache = await t.open({ name });
    }
  },

  "when one of a pack is removed or replaced, the others stay, for every handle": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await putAll(t, one);
    t.equal(await count(t, two, seedsOf(keys())), COUNT);
    t.equal(await one.delete("key 3"), true);
    t.equal(await two.get("key 3"), undefined);
    t.equal(await one.put("key 5", t.bytes(SIZE, 500)), true);
    const seeds = { ...seedsOf(keys()), "key 5": 500 };
    for (const cache of [two, one]) t.equal(await count(t, cache, seeds), COUNT - 1);
    await putAll(t, two, keys(20), 100);
    Object.assign(seeds, seedsOf(keys(20), 100));
    for (const cache of [one, two]) t.equal(await count(t, cache, seeds), COUNT);
    // The one that put accounts for it first: until it does, at the latest 200 ms later, the other one does not count it.
    for (const cache of [two, one]) t.equal((await cache.stats()).entries, COUNT);
    await one.close();
    await two.close();
    const again = await t.open({ name });
    t.equal(await count(t, again, seeds), COUNT);
    t.equal((await again.stats()).entries, COUNT);
  },

  "eviction takes the one longest unused out of a pack, and no other": async (t) => {
    const name = t.database();
    let cache = await t.open({ name, maxEntries: COUNT });
    await putAll(t, cache);
    await cache.get("key 0");
    await cache.put("new", t.bytes(SIZE, 77));
    await cache.flush();
    t.equal(await cache.get("key 1"), undefined);
    t.equal(await cache.get("key 0"), t.bytes(SIZE, 0));
    t.equal((await cache.stats()).entries, COUNT);
    await cache.close();
    cache = await t.open({ name });
    t.equal(await count(t, cache, { ...seedsOf(keys()), new: 77 }), COUNT);
  },

  "handles that put the same keys at once find the same values, and nothing is left over": async (t) => {
    const name = t.database();
    const caches = [];
    for (let at = 0; at < 4; at += 1) caches.push(await t.open({ name }));
    for (let round = 0; round < 8; round += 1) {
      const some = keys(round % 2 ? 3 : 12);
      await Promise.all(caches.map((cache, at) => putAll(t, cache, some, 1000 * round + 100 * at)));
      const seen = await Promise.all(caches.map((cache) => cache.getMany(some)));
      for (const found of seen) {
        t.equal(found.length, some.length);
        found.forEach((value, at) => {
          t.ok(value !== undefined, `${some[at]} in round ${round}`);
          t.equal(value, seen[0][at], `${some[at]} in round ${round}`);
        });
      }
    }
    for (const cache of caches) t.equal((await cache.stats()).entries, 12);
    await caches[0].clear();
    t.equal(await held(name), 0);
    for (const cache of caches) t.equal(await count(t, cache, seedsOf(keys(12))), 0);
  },

  "a pack that is dissolved does not bring back what was replaced meanwhile": async (t) => {
    for (let round = 0; round < 4; round += 1) {
      const name = t.database();
      const [knows, other] = [await t.open({ name }), await t.open({ name })];
      // Both have numbers of their own, and only one knows of the pack.
      await knows.put("a", t.bytes(SIZE, 1));
      await other.put("b", t.bytes(SIZE, 2));
      await putAll(t, knows);
      const [one, two] = round % 2 ? ["key 3", "key 4"] : ["key 4", "key 3"];
      const puts = [() => other.put(one, t.bytes(SIZE, 500)), () => knows.put(two, t.bytes(SIZE, 600))];
      if (round > 1) puts.reverse();
      t.equal(await Promise.all(puts.map((put) => put())), [true, true]);
      const seeds = { ...seedsOf(keys()), [one]: 500, [two]: 600 };
      for (const cache of [knows, other, await t.open({ name })]) {
        t.equal(await count(t, cache, seeds), COUNT);
        t.equal((await cache.stats()).entries, COUNT + 2);
      }
    }
  },

  "a handle finds at once what another one has stored, replaced or cleared": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    for (let round = 0; round < 20; round += 1) {
      const [writer, reader] = round % 2 ? [one, two] : [two, one];
      await writer.put("key", t.bytes(SIZE, round));
      t.equal(await reader.get("key"), t.bytes(SIZE, round));
      t.equal(await reader.has(`${round}`), false);
      await writer.put(`${round}`, t.bytes(SIZE, round));
      t.equal(await reader.has(`${round}`), true);
      if (round % 5 !== 4) continue;
      await writer.clear();
      t.equal(await reader.get("key"), undefined);
      t.equal(await reader.has(`${round}`), false);
    }
  },

  "rows do not grow without end, and a handle that slept finds everything": async (t) => {
    const name = t.database();
    const sleeper = await t.open({ name });
    await sleeper.put("old", t.bytes(SIZE, 1));
    const busy = await t.open({ name });
    for (let at = 0; at < 200; at += 1) await busy.put(`key ${at % 50}`, t.bytes(SIZE, at));
    await busy.flush();
    t.ok((await held(name, "directory")) < 80, "they became one");
    t.equal(await held(name), 51);
    await busy.put("last", t.bytes(SIZE, 2));
    t.equal(await sleeper.get("last"), t.bytes(SIZE, 2));
    t.equal(await sleeper.get("key 7"), t.bytes(SIZE, 157));
    await sleeper.put("key 7", t.bytes(SIZE, 7));
    t.equal(await busy.get("key 7"), t.bytes(SIZE, 7));
    t.equal(await busy.get("old"), t.bytes(SIZE, 1));
    t.equal(await held(name), 52);
  },

  "unreadable rows are rebuilt from the entries": async (t) => {
    const pad = (bytes, length) => Uint8Array.from({ length }, (_, at) => bytes[at] ?? 0);
    const junks = [new Uint8Array(), pad([9], 8), pad([0, 1], 8), pad([0], 55), "text", 7, pad([0], 56).fill(0xff, 48)];
    for (const junk of junks) {
      const name = t.database();
      let cache = await t.open({ name });
      await putAll(t, cache);
      await cache.put("large", t.bytes(100_000, 5));
      await cache.put("key 3", t.bytes(SIZE, 33));
      await cache.delete("key 4");
      await cache.close();
      await rewrite(name, () => junk, "directory");
      cache = await t.open({ name });
      const seeds = { ...seedsOf(keys()), "key 3": 33 };
      // The first look may come before they are there again, and then misses.
      await count(t, cache, seeds);
      await cache.flush();
      t.equal(await count(t, cache, seeds), COUNT - 1);
      t.equal(await cache.get("large"), t.bytes(100_000, 5));
      t.equal((await cache.stats()).entries, COUNT);
      await cache.close();
      cache = await t.open({ name });
      t.equal(await count(t, cache, seeds), COUNT - 1, "and stay there");
    }
  },

  "a pack that is damaged costs no more than what is damaged": async (t) => {
    const flips = { header: [2, 0], count: [5, 0], table: [8 + 4 * 7, COUNT], member: [3000, COUNT - 1] };
    for (const [what, [at, least]] of Object.entries(flips)) {
      const name = t.database();
      let cache = await t.open({ name });
      await putAll(t, cache);
      await cache.close();
      await rewrite(name, (record) => {
        const damaged = record.slice();
        damaged[at] ^= 0x10;
        return damaged;
      });
      cache = await t.open({ name });
      const found = await count(t, cache, seedsOf(keys()));
      t.ok(found >= Math.min(least, COUNT - 2) && found < COUNT, `${found} with a damaged ${what}`);
      const { misses } = await cache.stats();
      t.ok(Object.values(misses).reduce((sum, n) => sum + n, 0) === COUNT - found, JSON.stringify(misses));
      await putAll(t, cache);
      t.equal(await count(t, cache, seedsOf(keys())), COUNT, `healed: ${what}`);
      t.equal(await cache.verify(), []);
    }
  },

  "a database that was deleted and made again starts empty": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await putAll(t, one);
    t.equal(await count(t, two, seedsOf(keys())), COUNT);
    await new Promise((resolve, reject) => {
      const request = indexedDB.deleteDatabase(`warmstart:${name}`);
      request.onsuccess = resolve;
      request.onerror = request.onblocked = () => reject(new Error("not deleted"));
    });
    t.equal(await count(t, one, seedsOf(keys())), 0);
    await putAll(t, two, keys(), 300);
    for (const cache of [one, two]) t.equal(await count(t, cache, seedsOf(keys(), 300)), COUNT);
  },

  "rows of a connection that was given up hide none of the next one": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await two.put("first", "1");
    t.equal(await one.get("first", "text"), "1");
    await two.put("second", "2");

    // The numbers of the row of "second" arrive while the next connection reads all rows.
    const { getAll, getAllKeys } = IDBObjectStore.prototype;
    const late = {};
    let [first, reads] = [undefined, false];
    t.after(() => Object.assign(IDBObjectStore.prototype, { getAll, getAllKeys }));
    IDBObjectStore.prototype.getAllKeys = function (...given) {
      const request = getAllKeys.apply(this, given);
      if (this.name !== "directory" || first !== undefined) return request;
      const old = this.transaction.db;
      old.onversionchange();
      const tell = () => reads && late.result !== undefined && late.onsuccess();
      request.onsuccess = () => {
        late.result = request.result;
        tell();
      };
      IDBObjectStore.prototype.getAll = function (...asked) {
        reads ||= this.name === "directory" && this.transaction.db !== old;
        tell();
        return getAll.apply(this, asked);
      };
      first = one.get("first", "text");
      return late;
    };
    const second = one.get("second", "text");
    t.ok([undefined, "2"].includes(await second));
    t.equal(await first, "1");
    t.equal(await one.get("second", "text"), "2");
  },
};
