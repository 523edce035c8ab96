// Values of 32 MiB: how fast they go in and come out, how much the main thread stands still, and how fast `has` is.

import { stores } from "./stores.js";
import { expectBytes, inTurns, payload, rest, timed } from "./turns.js";
import { Stillness } from "./stillness.js";

const SIZE = 32 << 20;
const HUGE = 200e6;
const KEYS = Array.from({ length: 8 }, (_, at) => `weights-${at}`);

/** Writes value after value, all stores in turns, to new databases in each round: `[{ store: milliseconds }]`. */
export async function write({ names, rounds }) {
  const samples = [];
  for (let round = 0; round < rounds; round += 1) {
    const opened = await openAll(names, round);
    for (const key of KEYS) {
      const tasks = perStore(opened, (store) => {
        const bytes = payload(SIZE);
        return timed(() => store.put(key, bytes.buffer));
      });
      samples.push(await inTurns(tasks));
    }
  }
  return samples;
}

/** Reads value after value, all stores in turns: `[{ store: milliseconds }]`. */
export async function read({ names, passes = 1 }) {
  const opened = await openAll(names);
  const samples = [];
  for (let pass = 0; pass < passes; pass += 1) {
    for (const key of KEYS) {
      const tasks = perStore(opened, (store, who) => {
        return timed(() => store.get(key), (value) => expectBytes(value, SIZE, who));
      });
      samples.push(await inTurns(tasks));
    }
  }
  return samples;
}

/**
 * Writes and reads all values, each store in its turn for each value, and adds up the milliseconds for which the main
 * thread stood still: `[{ store: { write, read } }]`.
 */
export async function block({ names, rounds }) {
  const opened = await openAll(names);
  const samples = [];
  for (let round = 0; round < rounds; round += 1) {
    const still = Object.fromEntries(names.map((name) => [name, { write: 0, read: 0 }]));
    for (const key of KEYS) {
      const tasks = perStore(opened, async (store, who) => {
        const bytes = payload(SIZE);
        await rest(50);
        still[who].write += (await Stillness.during(() => store.put(`again-${round}-${key}`, bytes.buffer))).sum;
        still[who].read += (await Stillness.during(() => store.get(`again-${round}-${key}`))).sum;
      });
      await inTurns(tasks);
    }
    samples.push(still);
  }
  return samples;
}

/** Writes one value of 200 MB after the other: the longest time for which the page stood still: `[{ store: milliseconds }]`. */
export async function hold({ names, rounds }) {
  const opened = await openAll(names);
  const samples = [];
  for (let round = 0; round < rounds; round += 1) {
    const tasks = perStore(opened, async (store) => {
      const bytes = payload(HUGE);
      await rest();
      const put = () => Stillness.during(() => store.put("huge", bytes.buffer));
      // Chromium does not always store a value of this size that is one Blob: "Failed to write blobs (InvalidBlob)".
      const { longest } = await put().catch(put);
      return longest;
    });
    samples.push(await inTurns(tasks));
  }
  return samples;
}

/** Asks those that can whether all values are there, and warmstart to list them: `[{ store: milliseconds }]`. */
export async function has({ names, passes }) {
  const opened = await openAll(names);
  const samples = [];
  for (let pass = 0; pass < passes; pass += 1) {
    const tasks = perStore(opened, (store, who) => {
      return timed(() => store.hasAll(KEYS), (there) => {
        if (there.length !== KEYS.length || there.includes(false)) throw new Error(`${who} lacks a value`);
      });
    });
    const { list } = opened.find(({ who }) => who === "warmstart").store;
    const entries = () => timed(list, (listed) => {
      if (listed.filter(({ size }) => size === SIZE).length !== KEYS.length) throw new Error("entries() lacks a value");
    });
    samples.push(await inTurns({ ...tasks, entries }));
  }
  return samples;
}

/** Opens the databases of a round of `write`; others use those of the first round. */
async function openAll(names, round = 0) {
  const opened = [];
  for (const name of names) opened.push({ who: name, store: await stores[name](`large-${round}`) });
  return opened;
}

function perStore(opened, task) {
  return Object.fromEntries(opened.map(({ who, store }) => [who, () => task(store, who)]));
}
