// From a page that has just begun to the first value.

import { expectBytes, keysOf, timed } from "./turns.js";

/** Opens one store, the first of this browser, and reads one value: `{ load, open }` in milliseconds. */
export async function first({ who, count }) {
  const [key] = keysOf(1, count);
  return FIRST[who](key);
}

const FIRST = {
  warmstart: async (key) => {
    let module;
    const load = await timed(async () => (module = await import("/warmstart/dist/index.js")));
    const open = await timed(
      async () => (await module.open({ name: "many-0" })).get(key),
      (value) => expectBytes(value, 4096, "warmstart"),
    );
    return { load, open };
  },
  "idb-keyval": async (key) => {
    let module;
    const load = await timed(async () => (module = await import("/node_modules/idb-keyval/dist/index.js")));
    const open = await timed(
      () => module.get(key, module.createStore("idb-keyval-many-0", "keyval")),
      (value) => expectBytes(value, 4096, "idb-keyval"),
    );
    return { load, open };
  },
};
