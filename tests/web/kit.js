// Runs the suites in a page or a worker, and defines the argument `t` of every test.

import { bytes } from "/tests/web/bytes.js";
import { equal, ignore, Ignored, ok, rejects } from "/tests/web/check.js";

export { bytes, equal, ok, rejects };

/** The timeout of a test in milliseconds, unless its suite exports a `timeout`. */
const TIMEOUT = 60_000;

/** Runs the tests of a suite, one after the other, and yields `{ name, took, error?, ignored? }` after each. */
export async function* runSuite(file, mode) {
  const [warmstart, suite] = await Promise.all([import("/warmstart/dist/index.js"), import(file)]);
  if (suite.modes && !suite.modes.includes(mode)) return;
  for (const [name, test] of Object.entries(suite.tests)) {
    const started = performance.now();
    const outcome = await runTest(test, tools(warmstart, mode), suite.timeout ?? TIMEOUT);
    yield { name, took: performance.now() - started, ...outcome };
  }
}

/** Returns the failure of a test, or why it cannot run here. */
async function runTest(test, kit, timeout) {
  const unseen = [];
  const notice = (event) => {
    event.preventDefault();
    (kit.expected() ?? unseen).push(event.reason ?? event.error ?? event.message);
  };
  globalThis.addEventListener("unhandledrejection", notice);
  globalThis.addEventListener("error", notice);
  let error;
  let ignored;
  try {
    await within(timeout, test(kit.t));
  } catch (thrown) {
    if (thrown instanceof Ignored) ignored = thrown.message;
    else error = described(thrown);
  }
  try {
    await within(timeout, kit.end());
    // A rejection without a handler is reported a task later.
    await new Promise((resolve) => setTimeout(resolve));
  } catch (thrown) {
    error ??= `while cleaning up: ${described(thrown)}`;
  }
  globalThis.removeEventListener("unhandledrejection", notice);
  globalThis.removeEventListener("error", notice);
  if (unseen.length > 0) error ??= `not caught: ${unseen.map(described).join("; ")}`;
  return error === undefined ? { ignored } : { error };
}

function tools(warmstart, mode) {
  const opened = [];
  const names = [];
  const atEnd = [];
  let expected;
  const t = {
    warmstart,
    mode,
    /** Whether the test runs in a worker. */
    isWorker: typeof document === "undefined",
    equal,
    ok,
    rejects,
    /** Ends a test that cannot run here: it is counted, and not as one that passed. */
    ignore,
    /** Ends a test that needs what Firefox does not have. Chromium has it, so there the test fails. */
    lacking: (what) => {
      if (navigator.userAgent.includes("Firefox")) ignore(`Firefox has no ${what}`);
      throw new Error(`the browser has no ${what}`);
    },
    /** The bytes that /faults/bytes sends. */
    bytes,
    /** Returns a unique name. Its database is deleted after the test. */
    database: () => {
      const name = `test-${crypto.randomUUID()}`;
      names.push(name);
      return name;
    },
    /** Opens a cache that is closed and deleted after the test. */
    open: async (options = {}) => {
      const name = options.name ?? t.database();
      if (!names.includes(name)) names.push(name);
      const cache = await warmstart.open({ ...options, name });
      opened.push(cache);
      return cache;
    },
    /** The URL of a path of the test server. */
    url: (path) => new URL(path, globalThis.location.origin).href,
    /** How often each path was asked for since the last `/counts/reset`. */
    counts: async () => (await fetch("/counts")).json(),
    sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    /** Collects rejections without a handler from here on, which then do not fail the test. */
    uncaught: () => (expected = []),
    /** Runs after the test, the last one first. */
    after: (work) => void atEnd.unshift(work),
  };
  const end = async () => {
    for (const work of atEnd) await work();
    for (const cache of opened) await cache.close();
    // IndexedDB may have been taken away from the test.
    if (globalThis.indexedDB) await Promise.all(names.map((name) => dropped(`warmstart:${name}`)));
  };
  return { t, end, expected: () => expected };
}

/** Deletes a database, once its connections are closed. */
function dropped(name) {
  return new Promise((resolve) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = request.onerror = request.onblocked = () => resolve();
  });
}

function within(timeout, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${timeout} ms`)), timeout);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function described(error) {
  const stack = error?.stack ? String(error.stack) : String(error);
  const said = stack.includes(String(error?.message ?? "")) ? stack : `${error}\n${stack}`;
  return error?.cause === undefined ? said : `${said}\ncaused by ${described(error.cause)}`;
}
