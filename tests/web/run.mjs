// Runs the suites and the cases in Chromium, and the suites in Firefox. `node tests/web/run.mjs --help` says how.

import { readdir } from "node:fs/promises";
import { parseArgs } from "node:util";

import { runCases } from "./cases.mjs";
import { chromium } from "./chromium.mjs";
import { firefox } from "./firefox.mjs";
import { SuiteRunner } from "./suites.mjs";

const HELP = `node tests/web/run.mjs [--deep] [--only FILE]... [--mode MODE]... [--verbose]

Runs suite/*.js in pages and cases/*.mjs beside them, in the Chromium that CHROMIUM names, that of the machine or that of an npm package.
--deep        runs all modes of Chromium, and the cases that take long
--only FILE   runs this file alone: suite/NAME.js, cases/NAME.mjs or just NAME; may be repeated
--mode MODE   runs this mode alone: default, sqlite (IndexedDB over SQLite), worker (suites in a module worker) or firefox (suites in
              the Firefox that FIREFOX names, or that of the machine)
--verbose     names every test and its time
The exit code is 1 if a test failed, and 3 if the browser is missing.`;

const MODES = ["default", "sqlite", "worker", "firefox"];
/** The number of files that run at a time. Tests mostly wait, so it exceeds the number of cores. */
const AT_A_TIME = 3;
/** The file that runs longest, so it begins first. */
const FIRST = "adversary-faults.js";

const { values } = parseArgs({
  options: {
    deep: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
    mode: { type: "string", multiple: true },
    verbose: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const modes = values.mode ?? MODES.slice(0, values.deep ? 3 : 1);
const unknown = modes.find((mode) => !MODES.includes(mode));
if (unknown) refuse(2, `there is no mode ${unknown}: there are ${MODES.join(", ")}`);

const matched = new Set();
const suites = await chosen("suite", ".js");
const cases = await chosen("cases", ".mjs");
const misspelt = values.only.filter((only) => !matched.has(only));
if (misspelt.length > 0) {
  refuse(2, `no file is called ${misspelt.join(" or ")}: give the name of one in tests/web/suite or tests/web/cases`);
}
if (modes.some((mode) => mode !== "firefox") && (await chromium()) === undefined) {
  refuse(3, "not run: there is no Chromium; install it, or name one by CHROMIUM");
}
if (modes.includes("firefox") && firefox() === undefined) {
  refuse(3, "not run: there is no Firefox; install it (in Debian: firefox-esr), or name one by FIREFOX");
}

const started = performance.now();
const failures = [];
const ignored = [];
let passed = 0;
const left = [];
const queue = await jobs();
await Promise.all(Array.from({ length: AT_A_TIME }, work));
for (const { group, name, ignored: reason } of ignored) console.log(`ignored ${group}: ${name}: ${reason}`);
for (const { group, name, error } of failures) console.log(`\nFAILED ${group}: ${name}\n${error}`);
if (left.length > 0) console.log(`\nonly with --deep: ${left.join(", ")}`);
const took = ((performance.now() - started) / 1000).toFixed(1);
console.log(`\nbrowser: ${passed} passed, ${failures.length} failed, ${ignored.length} ignored, in ${took} s`);
// A run that finds nothing to run proves nothing.
process.exit(failures.length === 0 && passed > 0 ? 0 : 1);

/** Exits because of an invalid argument or a missing requirement. */
function refuse(status, message) {
  console.error(message);
  process.exit(status);
}

/** Lists the files to run with their modes. A file that is named runs as a whole. */
async function jobs() {
  const found = [];
  const deep = values.deep || values.only.length > 0;
  for (const name of cases) {
    const { modes: its = ["default"], deep: long } = await import(new URL(`cases/${name}`, import.meta.url));
    if (!deep && long && modes.includes("default")) left.push(...(long === true ? [`cases/${name}`] : long.map((title) => `cases/${name}: ${title}`)));
    if (!deep && long === true) continue;
    for (const mode of modes.filter((mode) => its.includes(mode))) {
      found.push({ group: `cases/${name} ${mode}`, run: () => runCases(name, mode, deep) });
    }
  }
  for (const mode of modes) {
    for (const name of suites) {
      const job = { group: `suite/${name} ${mode}`, run: (runner) => runner.run(name, mode) };
      if (name === FIRST) found.unshift(job);
      else found.push(job);
    }
  }
  return found;
}

async function work() {
  const runner = new SuiteRunner();
  for (let job = queue.shift(); job !== undefined; job = queue.shift()) report(job.group, await job.run(runner));
  await runner.end();
}

/** Prints one line for a group of tests, and collects those that did not pass. */
function report(group, results) {
  if (results.length === 0) return;
  const failed = results.filter((result) => result.error !== undefined);
  const unable = results.filter((result) => result.ignored !== undefined);
  const took = results.reduce((sum, result) => sum + result.took, 0) / 1000;
  const well = results.length - failed.length - unable.length;
  passed += well;
  failures.push(...failed.map((result) => ({ group, ...result })));
  ignored.push(...unable.map((result) => ({ group, ...result })));
  const verdict = (failed.length === 0 ? "" : `, ${failed.length} FAILED`) + (unable.length === 0 ? "" : `, ${unable.length} ignored`);
  console.log(`${group}: ${well} passed${verdict}, ${took.toFixed(1)} s`);
  if (!values.verbose) return;
  for (const { name, took: time, error, ignored: reason } of results) {
    const outcome = error !== undefined ? "FAILED " : reason !== undefined ? "ignored" : "passed ";
    console.log(`  ${outcome} ${(time / 1000).toFixed(2).padStart(6)} s  ${name}`);
  }
}

async function chosen(folder, extension) {
  const found = await readdir(new URL(folder, import.meta.url)).catch(() => []);
  const names = found.filter((name) => name.endsWith(extension)).sort();
  const asked = (name) => {
    const bare = name.slice(0, -extension.length);
    const asking = values.only.filter((only) => [bare, name, `${folder}/${name}`].includes(only.replace(/^tests\/web\//, "")));
    for (const only of asking) matched.add(only);
    return asking.length > 0;
  };
  return names.filter((name) => values.only.length === 0 || asked(name));
}
