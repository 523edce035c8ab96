// IndexedDB fails at every single call of a workload, and afterwards works again: what was acknowledged is there, what was replaced or
// removed is not, and the accounts are right.

import { databaseOf, deleteRaw, records } from "/tests/web/raw.js";

export const timeout = 120_000;
// The calls are the same everywhere.
export const modes = ["default"];

const CALLS = [
  [IDBDatabase, "transaction"],
  ...["put", "get", "getKey", "getAll", "getAllKeys", "delete", "clear", "count"].map((name) => [IDBObjectStore, name]),
];

/** Counts the calls of IndexedDB, and lets the one with number `at` fail. */
function fail(t, { at = Infinity, how = "throw", error = "UnknownError" }) {
  const state = { calls: 0, at, what: "" };
  const undo = CALLS.map(([{ prototype }, name]) => {
    const real = prototype[name];
    prototype[name] = function (...given) {
      state.calls += 1;
      if (state.calls !== state.at) return real.apply(this, given);
      state.what = `${name} ${this.name} ${String(given[0]).slice(0, 20)}`;
      if (how === "throw") throw new DOMException("made to fail", error);
      const made = real.apply(this, given);
      (made instanceof IDBTransaction ? made : this.transaction).abort();
      return made;
    };
    return () => (prototype[name] = real);
  });
  state.undo = () => undo.forEach((each) => each());
  t.after(state.undo);
  return state;
}

/** Runs the workload, and compares it with a map. Returns the differences. */
async function run(t, options) {
  const name = t.database();
  const wrong = [];
  // The value that each key may have besides `undefined`, and whether it must have it.
  const model = new Map();
  const may = (key) => model.get(key) ?? { values: new Set(), must: false };
  let cache = await t.open({ name });
  const state = fail(t, options);
  let counter = 0;
  const put = async (key, size) => {
    counter += 1;
    const value = `${counter} `.padEnd(size, "x");
    const before = may(key);
    const stored = await cache.put(key, value);
    // On a full disk, storing a value evicts others.
    const stays = options.error !== "QuotaExceededError";
    if (stored) model.set(key, { values: new Set([value]), must: stays });
    else model.set(key, { values: new Set([...before.values, value]), must: false });
  };
  const remove = async (key) => {
    const before = may(key);
    const removed = await cache.delete(key);
    if (removed) model.set(key, { values: new Set(), must: false });
    else model.set(key, { values: before.values, must: false });
  };
  const check = async (key, sure, where) => {
    const value = await cache.get(key, "text");
    const { values, must } = may(key);
    const shown = value?.slice(0, 5);
    if (value !== undefined && !values.has(value)) wrong.push(`${where}: ${key} holds ${shown}`);
    if (sure && must && value === undefined) wrong.push(`${where}: ${key} is lost`);
  };
  const all = async (sure, where) => {
    for (const key of model.keys()) await check(key, sure, where);
  };
  try {
    await put("a", 10);
    await put("b", 100_000);
    await check("a", false, "first");
    await cache.flush();
    await put("a", 20);
    await put("b", 10);
    await put("c", 100_000);
    await all(false, "overwritten");
    await remove("a");
    await cache.has("b");
    await all(false, "removed");
    await cache.flush();
    await put("a", 200_000);
    await remove("c");
    await cache.entries();
    await cache.clear();
    for (const key of model.keys()) model.set(key, { values: new Set(), must: false });
    await all(false, "cleared");
    await put("d", 10);
    await put("b", 100_000);
    await cache.getOrCreate("e", () => "built");
    await cache.flush();
    state.at = Infinity;
    await all(true, "after the fault");
    await put("f", 10);
    if (may("f").values.size > 1 || !(await cache.has("f"))) wrong.push("a put after the fault is refused");
    await all(true, "after a put");
    await cache.close();
    cache = await t.open({ name });
    await all(true, "in the next visit");
    const { entries } = await cache.stats();
    const there = (await records(name)).length;
    if (entries !== there) wrong.push(`${entries} are counted of ${there}`);
  } catch (error) {
    wrong.push(`rejected: ${error}`);
  }
  state.undo();
  await cache.close();
  // Chromium becomes slower the more of them there are.
  await deleteRaw(databaseOf(name));
  return { wrong, calls: state.calls, what: state.what };
}

function everyCall(options) {
  return async (t) => {
    const { wrong, calls } = await run(t, {});
    t.equal(wrong, []);
    const found = [];
    // Every fifth one in Firefox, whose run is bounded to 90 seconds.
    for (let at = 1; at <= calls; at += navigator.userAgent.includes("Firefox") ? 5 : 1) {
      const { wrong, what } = await run(t, { ...options, at });
      for (const each of wrong) found.push(`call ${at} (${what}): ${each}`);
    }
    t.equal(found.join("\n"), "");
  };
}

export const tests = {
  "a call that throws costs what it was for, and no more": everyCall({}),
  "a call that says that the connection is closing": everyCall({ error: "InvalidStateError" }),
  "a call that says that the disk is full": everyCall({ error: "QuotaExceededError" }),
  "a transaction that aborts": everyCall({ how: "abort" }),
};
