// Runs each suite in a page of its own, in every mode.

import { Browser, forget } from "./browser.mjs";
import { freshFolder, site } from "./site.mjs";

/**
 * How long a page may say nothing, in milliseconds. A test that hangs is given up by the page itself (`PATIENCE` in kit.js, or the
 * suite's `patience`, once for the test and once for what it leaves behind): this is for a page that has died.
 */
const PATIENCE = 300_000;
/** How many modes run at a time, each in a browser of its own: much of a suite is waiting. */
const MODES_AT_A_TIME = 2;
/** Lets suites collect garbage when they want to. */
const COLLECTS = ["--js-flags=--expose-gc"];

/** `report(group, results)` is called for every suite in every mode. */
export async function runSuites(names, modes, report) {
  if (names.length === 0) return;
  const server = await site();
  const queue = [...modes];
  const work = async () => {
    for (let mode = queue.shift(); mode !== undefined; mode = queue.shift()) await runMode(server, names, mode, report);
  };
  await Promise.all(Array.from({ length: MODES_AT_A_TIME }, work));
  await server.close();
}

async function runMode(server, names, mode, report) {
  const profile = await freshFolder("suites");
  const browser = await Browser.launch({ profile, sqlite: mode === "sqlite", flags: COLLECTS });
  try {
    for (const name of names) report(`suite/${name} ${mode}`, await runSuite(browser, server, name, mode));
  } finally {
    await browser.close();
    await forget(profile);
  }
}

async function runSuite(browser, server, name, mode) {
  const page = await browser.open(server.url("/tests/web/page.html"));
  const results = [];
  try {
    await page.waitForFunction(() => globalThis.startSuite);
    await page.evaluate(([file, mode]) => globalThis.startSuite(file, mode), [`/tests/web/suite/${name}`, mode]);
    const next = () => within(page.evaluate(() => globalThis.nextResult()));
    for (let result = await next(); result !== undefined; result = await next()) results.push(result);
    // The kit sees what tests do; here is what went wrong between them.
    if (page.problems.length > 0) results.push(failed("between the tests", page.problems.join("\n")));
  } catch (error) {
    results.push(failed("the suite as a whole", [error?.stack ?? error, ...page.problems].join("\n")));
  } finally {
    await page.close().catch(() => undefined);
  }
  return results;
}

const failed = (name, error) => ({ name, took: 0, error: String(error) });

function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${PATIENCE} ms`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
