// Values of 4 KiB, and how soon a page that has just begun gets its first one.

import { shuffled } from "./page/turns.js";
import { compared, longer } from "./rows.mjs";
import { measure, Scene } from "./scene.mjs";

/** Of each round. */
const COUNT = 256;

/** For each set of databases: rounds of writes, restarts before cold reads, passes of warm reads. */
const FULL = { sets: 3, rounds: 9, restarts: 4, passes: 5, opens: 15 };
const QUICK = { sets: 1, rounds: 3, restarts: 2, passes: 1, opens: 1 };

/** The least that writing and reading many at a time, or one, has to reach, as multiples of idb-keyval's. */
const BOUNDS = {
  write: { one: 0.8, many: 1, ofOne: 4 },
  read_cold: { one: 0.9, many: 1, ofOne: 2.5 },
  read_warm: { one: 0.9, many: 1, ofTick: 0.9 },
};

/** The longest time from `open` to the first value, as a multiple of idb-keyval's. */
const OPEN = 1.3;

export async function small({ quick }) {
  const plan = quick ? QUICK : FULL;
  const rows = await Scene.play(async (scene) => {
    const [written, cold, warm] = [[], [], []];
    const sets = Array.from({ length: plan.sets }, (_, set) => set);
    for (const set of sets) {
      const { rounds } = plan;
      written.push(...(await measure(await scene.page(), "small.js", "write", { set, rounds, count: COUNT })));
    }
    for (let round = 0; round < plan.restarts; round += 1) {
      for (const set of sets) {
        cold.push(...(await measure(await scene.page(), "small.js", "read", { set, round, count: COUNT })));
      }
    }
    const page = await scene.page();
    for (const set of sets) {
      const passes = plan.passes + 1;
      const [, ...counted] = await measure(page, "small.js", "read", { set, round: 0, count: COUNT, passes });
      // The first pass brings the values in.
      warm.push(...counted);
    }
    return [["write", written], ["read_cold", cold], ["read_warm", warm]].flatMap(rowsOf);
  });
  return [...rows, ...(await opening(plan.opens))];
}

function rowsOf([kind, samples]) {
  const took = (who) => samples.map((sample) => sample[who]);
  const bounds = BOUNDS[kind];
  const rowOf = (subject, name, against, bound) =>
    compared(`4KiB/${kind}/${name}`, {
      ours: took(subject),
      theirs: took(against),
      against,
      unit: "values/s",
      amount: COUNT,
      bound,
    });
  const row = (name, way, against, bound) => rowOf(`warmstart, ${way}`, name, against, bound);
  const [one, many] = ["idb-keyval, one", "idb-keyval, many"];
  return [
    row("many/of_one_by_one", "many", one, bounds.ofOne),
    row("many", "many", many, bounds.many),
    row("at_once/of_one_by_one", "at once", one, bounds.ofOne),
    row("at_once", "at once", many, bounds.many),
    row("one", "one", one, bounds.one),
    // Of writes: how far apart two measurements of the same work are.
    kind === "write"
      ? rowOf("idb-keyval, many then one", "many/same_store", many)
      : row("one/of_one_tick", "at once then one", "idb-keyval, many then one", bounds.ofTick),
    row("many", "many", "raw IndexedDB, many"),
    // What one record for each value allows at most, without any verification.
    rowOf("raw IndexedDB, many", "many/floor", many),
    rowOf("raw IndexedDB, many", "many/of_one_by_one/floor", one),
    ...["raw IndexedDB", "localforage", "Cache API", "tvmjs"].map((peer) => row("one", "one", `${peer}, one`)),
  ];
}

/** Opens stores in a profile that has no other databases, like that of a visitor. */
async function opening(times) {
  const took = { warmstart: [], "idb-keyval": [], "raw IndexedDB": [] };
  await Scene.play(async (scene) => {
    await measure(await scene.page(), "open.js", "write", { count: COUNT });
    for (let time = 0; time < times; time += 1) {
      for (const who of shuffled(Object.keys(took))) {
        took[who].push(await measure(await scene.page(), "open.js", "first", { who, count: COUNT }));
      }
    }
  });
  const row = (name, subject, part, bound) =>
    longer(name, { ours: took[subject].map(part), theirs: took["idb-keyval"].map(part), against: "idb-keyval", bound });
  return [
    row("open_to_first_get", "warmstart", ({ open }) => open, OPEN),
    row("open_to_first_get/with_its_modules", "warmstart", ({ load, open }) => load + open),
    row("open_to_first_get/floor", "raw IndexedDB", ({ open }) => open),
  ];
}
