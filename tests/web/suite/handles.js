// Handles on one database, each like a tab: what one stores, replaces or removes, the others find at once.

import { databaseOf, deleteRaw, openRaw, records } from "/tests/web/raw.js";

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
  "values of many sizes come back as they were, one by one too": async (t) => {
    const name = t.database();
    let cache = await t.open({ name });
    const sizes = [0, 1, 7, 100, 4096, 16_000, 16_384, 20_000, 48_000, 50_000, 3, 0, 12_345, 9_999, 1_000, 30_000, 8, 2];
    await cache.putMany(sizes.map((size, at) => [`${at}`, t.bytes(size, at)]));
    for (let round = 0; round < 2; round += 1) {
      const found = await cache.getMany(sizes.map((_, at) => `${at}`));
      found.forEach((value, at) => t.equal(value, t.bytes(sizes[at], at), `${sizes[at]} bytes`));
      for (const [at, size] of sizes.entries()) t.equal(await cache.get(`${at}`), t.bytes(size, at), `${size} bytes`);
      await cache.close();
      cache = await t.open({ name });
    }
  },

  "removing or replacing one entry keeps the others": async (t) => {
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
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, COUNT);
    await one.close();
    await two.close();
    const again = await t.open({ name });
    t.equal(await count(t, again, seeds), COUNT);
    t.equal((await again.stats()).entries, COUNT);
  },

  "handles that put equal keys at once find equal values": async (t) => {
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

  "a handle sees the changes of another one at once": async (t) => {
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

  "a database that was deleted and made again starts empty": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    await putAll(t, one);
    t.equal(await count(t, two, seedsOf(keys())), COUNT);
    t.equal(await deleteRaw(databaseOf(name)), "deleted");
    t.equal(await count(t, one, seedsOf(keys())), 0);
    await putAll(t, two, keys(), 300);
    for (const cache of [one, two]) t.equal(await count(t, cache, seedsOf(keys(), 300)), COUNT);
    for (const cache of [one, two]) t.equal((await cache.stats()).entries, COUNT);
  },

  "a database of the first edition is emptied, and used": async (t) => {
    const name = t.database();
    const first = await openRaw(databaseOf(name), {
      version: 1,
      upgrade: (database) => {
        for (const store of ["entries", "directory", "pieces", "journal", "notes"]) database.createObjectStore(store);
      },
    });
    const transaction = first.transaction("entries", "readwrite");
    transaction.objectStore("entries").put(t.bytes(SIZE, 1), 262_144);
    await new Promise((resolve) => (transaction.oncomplete = resolve));
    first.close();
    const cache = await t.open({ name });
    t.equal([cache.backend, (await cache.stats()).entries], ["indexeddb", 0]);
    t.equal(await cache.put("key", "value"), true);
    t.equal(await cache.get("key", "text"), "value");
    await cache.close();
    const database = await openRaw(databaseOf(name));
    t.equal([database.version, [...database.objectStoreNames]], [2, ["log", "pieces", "values"]]);
    database.close();
  },

  "a database of another program is left as it is": async (t) => {
    const name = t.database();
    const upgrade = (database) => database.createObjectStore("entries").put("kept", "key");
    (await openRaw(databaseOf(name), { version: 1, upgrade })).close();
    const cache = await t.open({ name, onWarning: () => undefined });
    t.equal(cache.backend, "memory");
    await cache.put("key", "value");
    await cache.close();
    t.equal(await records(name, "entries"), [["key", "kept"]]);
  },
};
