// Values of 32 MiB: throughput, how long the main thread stands still, and `has`.

import { compared, figure } from "./rows.mjs";
import { measure, Scene } from "./scene.mjs";

const MEBIBYTES = 32;

const FULL = {
  peers: ["idb-keyval", "localforage", "Cache API", "raw IndexedDB", "tvmjs"],
  askers: ["idb-keyval", "raw IndexedDB", "tvmjs"],
  writes: 3,
  restarts: 5,
  passes: 2,
  rounds: 2,
  has: 9,
  holds: 5,
};
const FEW = ["idb-keyval", "tvmjs"];
const QUICK = { peers: FEW, askers: FEW, writes: 2, restarts: 1, passes: 1, rounds: 1, has: 5, holds: 1 };

/** The least throughput, as multiples of idb-keyval's. */
const BOUNDS = { write: 1, read_cold: 1.2, read_warm: 1.5 };

/** The longest that the main thread may stand still, in parts of what idb-keyval takes. */
const BLOCKED = 0.25;

/** The longest that `has` and `entries` may take for eight values, in milliseconds. */
const HAS_MS = 5;

/** The longest that a `put` of 200 MB may hold the page at once, in milliseconds. */
const HELD_MS = 50;

export async function large({ quick }) {
  const plan = quick ? QUICK : FULL;
  const [names, asked] = [plan.peers, plan.askers].map((peers) => ["warmstart", ...peers]);
  const rows = await Scene.play(async (scene) => {
    const written = await measure(await scene.page(), "large.js", "write", { names, rounds: plan.writes });
    const [cold, first] = [[], []];
    let page;
    for (let restart = 0; restart < plan.restarts; restart += 1) {
      // Nothing has read a value yet.
      page = await scene.page();
      first.push(...(await measure(page, "large.js", "has", { names: asked, passes: 1 })));
      page = await scene.page();
      cold.push(...(await measure(page, "large.js", "read", { names })));
    }
    const warm = await measure(page, "large.js", "read", { names, passes: plan.passes });
    const again = await measure(page, "large.js", "has", { names: asked, passes: plan.has });
    return [
      ...throughput("write", written, plan.peers),
      ...throughput("read_cold", cold, plan.peers),
      ...throughput("read_warm", warm, plan.peers),
      ...hasRows("has/8x32MiB/cold", first, plan.askers),
      ...hasRows("has/8x32MiB/warm", again, plan.askers),
      entriesRow("entries/8x32MiB/cold", first),
      entriesRow("entries/8x32MiB/warm", again),
    ];
  });
  return [...rows, ...(await blocking(plan)), await holding(plan)];
}

function throughput(kind, samples, peers) {
  const took = (who) => samples.map((sample) => sample[who]);
  return peers.map((against) =>
    compared(`32MiB/${kind}`, {
      ours: took("warmstart"),
      theirs: took(against),
      against,
      unit: "MiB/s",
      amount: MEBIBYTES,
      bound: against === "idb-keyval" ? BOUNDS[kind] : undefined,
    }),
  );
}

function hasRows(name, samples, peers) {
  return peers.map((against, at) =>
    figure(name, {
      samples: samples.map((sample) => sample.warmstart),
      theirs: samples.map((sample) => sample[against]),
      against,
      unit: "ms",
      bound: at === 0 ? HAS_MS : undefined,
    }),
  );
}

function entriesRow(name, samples) {
  return figure(name, { samples: samples.map(({ entries }) => entries), unit: "ms", bound: HAS_MS });
}

/** How long the page stands still at once while 200 MB are put. */
async function holding({ holds: rounds }) {
  const names = ["warmstart", "idb-keyval"];
  const samples = await Scene.play(async (scene) => {
    return measure(await scene.page(), "large.js", "hold", { names, rounds });
  });
  const [ours, theirs] = names.map((who) => samples.map((sample) => sample[who]));
  return figure("held_at_once/put/200MB", { samples: ours, theirs, against: "idb-keyval", unit: "ms", bound: HELD_MS });
}

async function blocking({ peers, rounds }) {
  const names = ["warmstart", ...peers];
  const samples = await Scene.play(async (scene) => {
    return measure(await scene.page(), "large.js", "block", { names, rounds });
  });
  const all = ({ write, read }) => write + read;
  const row = (name, against, part, bound) => {
    const [ours, theirs] = ["warmstart", against].map((who) => samples.map((sample) => part(sample[who])));
    // Of something that never stands still there are no parts.
    const parts = ours.map((still, round) => still / Math.max(theirs[round], 1));
    return { ...figure(name, { samples: parts, unit: "ratio", against, bound }), ...still(ours, theirs) };
  };
  return [
    row("blocked/256MiB", "idb-keyval", all, BLOCKED),
    row("blocked/256MiB/write", "idb-keyval", ({ write }) => write),
    row("blocked/256MiB/read", "idb-keyval", ({ read }) => read),
    ...peers.slice(1).map((against) => row("blocked/256MiB", against, all)),
  ];
}

function still(ours, theirs) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return { ours: mean(ours), theirs: mean(theirs), measured: "ms" };
}
