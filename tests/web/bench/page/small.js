// Values of 4 KiB, one at a time and many at a time.

import { stores } from "./stores.js";
import { expectBytes, inTurns, keysOf, payload, shuffled, timed } from "./turns.js";

const SIZE = 4096;

/**
 * Who takes part, and how: one after the other, many by one call, or many calls at once. Those with "then" write in one way
 * and read in another.
 */
const CONTESTANTS = [
  ["warmstart", "many"],
  ["warmstart", "at once"],
  ["warmstart", "at once then one"],
  ["warmstart", "one"],
  ["idb-keyval", "many"],
  ["idb-keyval", "many then one"],
  ["idb-keyval", "one"],
  ["raw IndexedDB", "many"],
  ["raw IndexedDB", "one"],
  ["localforage", "one"],
  ["Cache API", "one"],
  ["tvmjs", "one"],
];

/** Writes `count` new values to each of a set of databases, in each round: `[{ contestant: milliseconds }]`. */
export async function write({ set, rounds, count }) {
  const opened = await openAll(set);
  const samples = [];
  // The first round is not counted: code is compiled in it.
  for (let round = -1; round < rounds; round += 1) {
    const keys = keysOf(round + 1, count);
    const writing = perContestant(opened, (store, way) => {
      const entries = keys.map((key) => [key, payload(SIZE)]);
      return timed(() => WRITES[way.split(" then ").at(0)](store, entries));
    });
    const took = await inTurns(writing);
    if (round >= 0) samples.push(took);
  }
  return samples;
}

/** Reads the values of one round of `write`, `passes` times: `[{ contestant: milliseconds }]`. */
export async function read({ set, round, count, passes = 1 }) {
  const opened = await openAll(set);
  const keys = keysOf(round, count);
  const samples = [];
  for (let pass = 0; pass < passes; pass += 1) {
    const reading = perContestant(opened, (store, way, who) => {
      const check = (values) => values.forEach((value) => expectBytes(value, SIZE, who));
      return timed(() => READS[way.split(" then ").at(-1)](store, keys), check);
    });
    samples.push(await inTurns(reading));
  }
  return samples;
}

const WRITES = {
  many: (store, entries) => store.putMany(entries),
  "at once": (store, entries) => Promise.all(entries.map(([key, bytes]) => store.put(key, bytes))),
  one: async (store, entries) => {
    for (const [key, bytes] of entries) await store.put(key, bytes);
  },
};

const READS = {
  many: (store, keys) => store.getMany(keys),
  "at once": (store, keys) => Promise.all(keys.map((key) => store.get(key))),
  one: async (store, keys) => {
    const values = [];
    for (const key of keys) values.push(await store.get(key));
    return values;
  },
};

/**
 * Opens a set of databases, in random order. One database can be faster than another in every round: two of idb-keyval
 * that did the same work differed by 9 hundredths over 20 rounds. So there are several sets.
 */
async function openAll(set) {
  const opened = [];
  for (const [name, way] of shuffled(CONTESTANTS)) {
    opened.push({ who: `${name}, ${way}`, way, store: await stores[name](`${way.replaceAll(" ", "-")}-${set}`) });
  }
  return opened;
}

function perContestant(opened, task) {
  const turn = async ({ who, way, store }) => {
    const took = await task(store, way, who);
    // Otherwise it would write its accounts in the turn of the next one.
    await store.flush?.();
    return took;
  };
  return Object.fromEntries(opened.map((contestant) => [contestant.who, () => turn(contestant)]));
}
