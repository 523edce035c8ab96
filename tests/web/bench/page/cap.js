// Values of 4 KiB in caches that are full.

import { open } from "/warmstart/dist/index.js";

import { inTurns, payload, timed } from "./turns.js";

const SIZE = 4096;

/** Puts new values, one after the other, into caches with so many entries: `[{ count: milliseconds }]`. */
export async function put({ counts, rounds, puts }) {
  const full = [];
  for (const count of counts) full.push(await fill(count));
  const samples = [];
  for (let round = 0; round < rounds; round += 1) {
    const tasks = full.map(({ cache, count }) => {
      const keys = Array.from({ length: puts }, (_, at) => `new-${round}-${at}`);
      const values = keys.map(() => payload(SIZE));
      const work = async () => {
        for (const [at, key] of keys.entries()) await cache.put(key, values[at]);
      };
      return [count, async () => {
        const took = await timed(work);
        await cache.flush();
        return took;
      }];
    });
    samples.push(await inTurns(Object.fromEntries(tasks)));
  }
  for (const { cache, count, evicted } of full) {
    const left = (await cache.entries()).length;
    if (evicted() < (rounds * puts) / 2 || left > count) throw new Error(`${evicted()} were evicted, ${left} are left`);
  }
  return samples;
}

/** Opens a cache that holds about `count` entries, and fills it until it evicts. */
async function fill(count) {
  const cache = await open({ name: `full-${count}`, maxBytes: count * SIZE });
  let evicted = 0;
  cache.events.on("evicted", (event) => (evicted += event.count));
  for (let at = 0; evicted === 0; at += 50) {
    await cache.putMany(Array.from({ length: 50 }, (_, more) => [`old-${at + more}`, payload(SIZE)]));
    if (at > count) throw new Error(`${at} values fit in ${count}`);
  }
  return { cache, count, evicted: () => evicted };
}
