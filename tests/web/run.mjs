// Runs the suites and the cases in Chromium. `node tests/web/run.mjs --help` says how.

import { readdir } from "node:fs/promises";
import { parseArgs } from "node:util";

import { runCases } from "./cases.mjs";
import { runSuites } from "./suites.mjs";

const HELP = `node tests/web/run.mjs [--only FILE]... [--mode MODE]... [--verbose]

Runs suite/*.js in pages and cases/*.mjs beside them, in Debian's Chromium or the one that CHROMIUM names.
--only FILE   this file alone: suite/NAME.js, cases/NAME.mjs or just NAME
--mode MODE   this mode alone: default, sqlite (IndexedDB over SQLite) or worker (suites in a module worker)
--verbose     names every test and how long it took`;

const MODES = ["default", "sqlite", "worker"];

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    mode: { type: "string", multiple: true, default: MODES },
    verbose: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const unknown = values.mode.find((mode) => !MODES.includes(mode));
if (unknown) refuse(`there is no mode ${unknown}: there are ${MODES.join(", ")}`);

const suites = await chosen("suite", ".js");
const cases = await chosen("cases", ".mjs");
if (values.only.length > 0 && suites.length + cases.length === 0) {
  refuse(`no file is called ${values.only.join(" or ")}: give the name of one in tests/web/suite or tests/web/cases`);
}

const started = performance.now();
const failures = [];
let passed = 0;
await runSuites(suites, values.mode, report);
await runCases(cases, values.mode, report);
for (const { group, name, error } of failures) console.log(`\nFAILED ${group}: ${name}\n${error}`);
const took = ((performance.now() - started) / 1000).toFixed(1);
console.log(`\nbrowser: ${passed} passed, ${failures.length} failed, in ${took} s`);
// A run that finds nothing to run proves nothing.
process.exit(failures.length === 0 && passed > 0 ? 0 : 1);

/** Ends because of what was asked for. */
function refuse(message) {
  console.error(message);
  process.exit(2);
}

/** Prints one line of a group of tests, and keeps what failed. */
function report(group, results) {
  if (results.length === 0) return;
  const failed = results.filter((result) => result.error !== undefined);
  const took = results.reduce((sum, result) => sum + result.took, 0) / 1000;
  passed += results.length - failed.length;
  failures.push(...failed.map((result) => ({ group, ...result })));
  const verdict = failed.length === 0 ? "" : `, ${failed.length} FAILED`;
  console.log(`${group}: ${results.length - failed.length} passed${verdict}, ${took.toFixed(1)} s`);
  if (!values.verbose) return;
  for (const { name, took: time, error } of results) {
    console.log(`  ${error === undefined ? "passed" : "FAILED"} ${(time / 1000).toFixed(2).padStart(6)} s  ${name}`);
  }
}

async function chosen(folder, extension) {
  const found = await readdir(new URL(folder, import.meta.url)).catch(() => []);
  const names = found.filter((name) => name.endsWith(extension)).sort();
  const asked = (name) => {
    const bare = name.slice(0, -extension.length);
    return values.only.some((only) => [bare, name, `${folder}/${name}`].includes(only.replace(/^tests\/web\//, "")));
  };
  return names.filter((name) => values.only.length === 0 || asked(name));
}
