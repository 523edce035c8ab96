// From a page that has just begun to the first value.

import { stores } from "./stores.js";
import { expectBytes, keysOf, payload, shuffled, timed } from "./turns.js";

/** The name of the databases. */
const NAME = "first";
const SIZE = 4096;

/** Writes `count` values to each store. */
export async function write({ count }) {
  for (const who of shuffled(Object.keys(FIRST))) {
    const store = await stores[who](NAME);
    await store.putMany(keysOf(0, count).map((key) => [key, payload(SIZE)]));
    await store.flush?.();
  }
}

/** Opens one store, the first of this browser, and reads one value: `{ load, open }` in milliseconds. */
export async function first({ who, count }) {
  const [key] = keysOf(0, count);
  const { module, get } = FIRST[who];
  let loaded;
  const load = await timed(async () => (loaded = module && (await import(module))));
  const open = await timed(() => get(loaded, key), (value) => expectBytes(value, SIZE, who));
  return { load, open };
}

const FIRST = {
  warmstart: {
    module: "/warmstart/dist/index.js",
    get: async ({ open }, key) => (await open({ name: NAME })).get(key),
  },
  "idb-keyval": {
    module: "/node_modules/idb-keyval/dist/index.js",
    get: ({ createStore, get }, key) => get(key, createStore(`idb-keyval-${NAME}`, "keyval")),
  },
  "raw IndexedDB": {
    get: async (_, key) => (await stores["raw IndexedDB"](NAME)).get(key),
  },
};
