// Runs each suite in a page of its own, in every mode.

import { Browser, forget } from "./browser.mjs";
import { freshFolder, site } from "./site.mjs";

/** How long a whole suite may take, in milliseconds. */
const PATIENCE = 240_000;
/** How many modes run at a time, each in a browser of its own: much of a suite is waiting. */
const MODES_AT_A_TIME = 2;

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
  const browser = await Browser.launch({ profile, sqlite: mode === "sqlite" });
  try {
    for (const name of names) report(`suite/${name} ${mode}`, await runSuite(browser, server, name, mode));
  } finally {
    await browser.close();
    await forget(profile);
  }
}

async function runSuite(browser, server, name, mode) {
  const page = await browser.open(server.url("/tests/web/page.html"));
  try {
    await page.waitForFunction(() => globalThis.runSuite);
    const ran = page.evaluate(([file, mode]) => globalThis.runSuite(file, mode), [`/tests/web/suite/${name}`, mode]);
    const results = await within(ran);
    // The kit sees what tests do; here is what went wrong between them.
    return page.problems.length === 0 ? results : [...results, failed("between the tests", page.problems.join("\n"))];
  } catch (error) {
    return [failed("the suite as a whole", [error?.stack ?? error, ...page.problems].join("\n"))];
  } finally {
    await page.close().catch(() => undefined);
  }
}

const failed = (name, error) => ({ name, took: 0, error: String(error) });

function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${PATIENCE} ms`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
