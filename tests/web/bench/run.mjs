// `cargo xtask bench web`: the npm package against what else keeps values in a browser. `--help` says how.

import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { cap } from "./cap.mjs";
import { demo } from "./demo.mjs";
import { large } from "./large.mjs";
import { pipelines } from "./pipelines.mjs";
import { json, table } from "./rows.mjs";
import { size } from "./size.mjs";
import { small } from "./small.mjs";

const HELP = `node tests/web/bench/run.mjs [--quick] [--strict] [--json FILE] [--only PART]...

Measures in the Chromium that is installed, or the one that CHROMIUM names, on fresh profiles.
--quick      takes fewer samples: to try it out
--strict     fails if a bound does not hold
--json FILE  writes the rows to this file too
--only PART  this part alone: small, large, cap, pipelines, size or demo`;

const PARTS = { small, large, cap, pipelines, size, demo };

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    strict: { type: "boolean", default: false },
    json: { type: "string" },
    only: { type: "string", multiple: true, default: Object.keys(PARTS) },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const unknown = values.only.find((part) => !(part in PARTS));
if (unknown) {
  console.error(`there is no part ${unknown}: there are ${Object.keys(PARTS).join(", ")}`);
  process.exit(2);
}

// So that the browser ends with it.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const began = performance.now();
const rows = [];
let hasFailed = false;
for (const [name, part] of Object.entries(PARTS)) {
  if (!values.only.includes(name)) continue;
  const started = performance.now();
  try {
    rows.push(...(await part({ quick: values.quick })));
    console.log(`${name}: measured in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  } catch (error) {
    // The other parts are measured all the same.
    hasFailed = true;
    console.error(`${name}: failed:`, error);
  }
}
console.log(table(rows));
console.log(`in all ${((performance.now() - began) / 1000).toFixed(0)} s`);
if (values.json) await writeFile(values.json, json("web", rows));
process.exit(hasFailed || (values.strict && rows.some(({ holds }) => !holds)) ? 1 : 0);
