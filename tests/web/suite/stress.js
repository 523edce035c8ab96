// Concurrent handles, each like a tab, checked against a model of the valid results.

import { dice, KEYS, Model, valueOf } from "/tests/web/current.js";
import { stored } from "/tests/web/raw.js";

const HANDLES = 4;
const LOOPS = 2;
const STEPS = 60;

async function stress(t, seed, { limits, aborts = false } = {}) {
  const random = dice(seed);
  const calmed = aborts ? abortSome(t, random) : () => undefined;
  const name = t.database();
  const model = new Model();
  const caches = [];
  for (let at = 0; at < HANDLES; at += 1) caches.push(await t.open({ name, ...limits }));
  /** Handles that may refuse and miss. */
  const closing = new Set();
  const refused = new Set();
  let last = 0;

  const some = () => KEYS.filter(() => random(2) === 0);
  const one = () => [KEYS[random(KEYS.length)]];
  const found = (what, cache, keys, values, began) => {
    const ended = model.now();
    keys.forEach((key, at) => {
      const value = values[at];
      const number = value === undefined ? null : Number(value.split(":")[1]);
      t.ok(value === undefined || value === valueOf(key, number), `${key} found ${value?.slice(0, 20)}, seed ${seed}`);
      const mayMiss = value === undefined && (limits !== undefined || closing.has(cache));
      // A value that was refused is kept beside the database, by the handle that refused it.
      if (refused.has(number)) return;
      t.ok(mayMiss || model.allows(key, number, began, ended), `${what} of ${key} found ${number}, seed ${seed}`);
    });
  };
  const change = async (keys, number, work) => {
    const changes = model.begin(keys, number);
    const did = await work();
    model.end(changes, did);
    if (did.includes(false) && number !== null) refused.add(number);
  };

  const steps = {
    put: (cache) => {
      const [keys, number] = [one(), (last += 1)];
      return change(keys, number, async () => [await cache.put(keys[0], valueOf(keys[0], number))]);
    },
    putMany: (cache) => {
      const [keys, number] = [some(), (last += 1)];
      return change(keys, number, () => cache.putMany(keys.map((key) => [key, valueOf(key, number)])));
    },
    get: async (cache) => {
      const [keys, began] = [one(), model.now()];
      found("get", cache, keys, [await cache.get(keys[0], "text")], began);
    },
    getMany: async (cache) => {
      const [keys, began] = [some(), model.now()];
      found("getMany", cache, keys, await cache.getMany(keys, "text"), began);
    },
    has: async (cache) => {
      const [[key], began] = [one(), model.now()];
      const has = await cache.has(key);
      if (!has && limits === undefined && !closing.has(cache)) t.ok(model.allows(key, null, began, model.now()), `has of ${key}, seed ${seed}`);
    },
    delete: (cache) => {
      const keys = one();
      return change(keys, null, async () => [(await cache.delete(keys[0])) || !(aborts || closing.has(cache))]);
    },
    clear: (cache) => change(KEYS, null, async () => (await cache.clear(), KEYS.map(() => !(aborts || closing.has(cache))))),
    flush: (cache) => cache.flush(),
    reopen: async (cache, at) => {
      if (caches[at] !== cache) return;
      caches[at] = await t.open({ name, ...limits });
      closing.add(cache);
      await cache.close();
    },
  };
  const often = { put: 8, putMany: 4, get: 8, getMany: 4, has: 2, delete: 4, clear: 1, flush: 1, reopen: 1 };
  const wheel = Object.entries(often).flatMap(([step, times]) => Array(times).fill(step));

  const loop = async (at) => {
    for (let step = 0; step < STEPS; step += 1) {
      const cache = caches[at];
      const what = wheel[random(wheel.length)];
      if (what !== "reopen") await steps[what](cache);
      else if (random(2) === 0) await steps.reopen(cache, at);
      if (random(6) === 0) await t.sleep(random(4));
    }
  };
  const loops = caches.flatMap((_, at) => Array.from({ length: LOOPS }, () => loop(at)));
  await Promise.all(loops);

  const settle = async () => {
    for (let round = 0; round < 2; round += 1) for (const cache of caches) await cache.flush();
  };
  // A stored entry is accounted for, and others are evicted for it, within 200 ms: that could be between two look-ups.
  if (limits) await settle();
  const values = [];
  for (const cache of caches) {
    const began = model.now();
    values.push(await cache.getMany(KEYS, "text"));
    found("the last look", cache, KEYS, values.at(-1), began);
  }
  for (const each of aborts ? [] : values) t.equal(each, values[0], `handles agree, seed ${seed}`);
  await settle();
  for (const cache of caches) await cache.close();
  calmed();
  await t.sleep(5);
  const again = await t.open({ name, ...limits });
  await again.flush();
  if (limits) t.ok((await stored(name)) <= limits.maxEntries, `the cap is kept, seed ${seed}: ${await stored(name)}`);
  const left = (await again.getMany(KEYS, "text")).filter((value) => value !== undefined).length;
  t.equal([(await again.stats()).entries, await stored(name)], [left, left], `counted and stored, seed ${seed}`);
  t.equal((await again.stats()).misses.absent ?? 0, KEYS.length - left, "nothing is damaged");
}

/** Aborts some of the transactions of this test on their way. */
function abortSome(t, random) {
  const { prototype } = IDBDatabase;
  const { transaction } = prototype;
  let calm = 0;
  prototype.transaction = function (stores, mode, ...more) {
    const begun = transaction.call(this, stores, mode, ...more);
    const abort = () => {
      // Every retry succeeds.
      if (performance.now() < calm) return;
      calm = performance.now() + 50;
      try {
        begun.abort();
      } catch {
        // It has ended already.
      }
    };
    if (mode === "readwrite" && random(6) === 0) setTimeout(abort, random(4));
    return begun;
  };
  const restore = () => (prototype.transaction = transaction);
  t.after(restore);
  return restore;
}

export const tests = {
  "whatever handles do at once, they find what is current": async (t) => {
    for (const seed of [11]) await stress(t, seed);
  },

  "and so while there is a cap": async (t) => {
    for (const seed of [21]) await stress(t, seed, { limits: { maxEntries: 10 } });
  },

  "and so while transactions abort": async (t) => {
    for (const seed of [31]) await stress(t, seed, { aborts: true });
  },
};
