// Runs the cases, which need Node: restarts, kills, two tabs, projects. README.md describes their argument.

import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";

import { Browser, forget } from "./browser.mjs";
import { equal, ignore, Ignored, ok, rejects } from "./check.js";
import { freshFolder, ROOT, site, TARGET } from "./site.mjs";

const { version: VERSION } = JSON.parse(readFileSync(path.join(ROOT, "wasm/npm/package.json"), "utf8"));

/** The timeout of a case in milliseconds, unless its file exports a `timeout`. */
const TIMEOUT = 120_000;

/** The results of a file of cases. Without `deep`, those that its `deep` names are left out. */
export async function runCases(name, mode, deep) {
  const file = await import(new URL(`cases/${name}`, import.meta.url));
  const results = [];
  const shared = new Shared(mode);
  for (const [title, run] of Object.entries(file.cases)) {
    if (!deep && file.deep?.includes?.(title)) continue;
    results.push(await runCase(title, run, { mode, deep }, file.timeout ?? TIMEOUT, shared));
  }
  await shared.end();
  return results;
}

/** The browser that the cases of a file share. Each case has its own server, and so its own origin and storage. */
class Shared {
  #mode;
  #started;

  constructor(mode) {
    this.#mode = mode;
  }

  /** Starts it for the first one who asks. */
  browser() {
    return (this.#started ??= this.#start()).then(({ browser }) => browser);
  }

  async #start() {
    const profile = await freshFolder("shared");
    return { profile, browser: await Browser.launch({ profile, sqlite: this.#mode === "sqlite" }) };
  }

  async end() {
    const started = await this.#started?.catch(() => undefined);
    this.#started = undefined;
    await started?.browser.kill();
    if (started !== undefined) await forget(started.profile);
  }
}

async function runCase(name, run, options, timeout, shared) {
  const started = performance.now();
  const { t, end } = await tools(options, shared);
  let error;
  let ignored;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${timeout} ms`)), timeout);
  });
  try {
    await Promise.race([run(t), late]);
  } catch (thrown) {
    if (thrown instanceof Ignored) ignored = thrown.message;
    else error = described(thrown);
  }
  clearTimeout(timer);
  // A failed case must not affect the next one.
  if (error !== undefined) await shared.end();
  await end().catch((thrown) => (error ??= `while cleaning up: ${described(thrown)}`));
  return { name, took: performance.now() - started, ...(error === undefined ? { ignored } : { error }) };
}

async function tools({ mode, deep }, shared) {
  const server = await site();
  const browsers = [];
  const pages = [];
  const folders = [];
  const folder = async (name) => {
    folders.push(await freshFolder(name));
    return folders.at(-1);
  };
  const profile = await folder("profile");
  const t = {
    mode,
    deep,
    server,
    equal,
    ok,
    rejects,
    ignore,
    root: ROOT,
    /** The tarball of the package, as `npm run package` leaves it. */
    tarball: path.join(ROOT, `target/package/warmstart-${VERSION}.tgz`),
    profile,
    /** A new folder that is removed after the case. */
    folder,
    /** Starts Chromium on the profile of the case, or on another one. */
    launch: async (options = {}) => {
      const browser = await Browser.launch({ profile, sqlite: mode === "sqlite", ...options });
      browsers.push(browser);
      return browser;
    },
    /** A browser that the cases of the file share, for those that neither end nor configure it. */
    browser: () => shared.browser(),
    /** Opens the page of the tests, which has `warmstart` and `kit` as globals. */
    page: async (browser, at = "/tests/web/page.html") => {
      const page = await browser.open(server.url(at));
      pages.push(page);
      await page.waitForFunction(() => globalThis.warmstart);
      return page;
    },
    /** Where a screenshot of this name is kept. */
    screenshot: async (file) => {
      const at = path.join(TARGET, "screenshots");
      await mkdir(at, { recursive: true });
      return path.join(at, file);
    },
  };
  const end = async () => {
    for (const browser of browsers) await browser.kill();
    // Those of the shared browser; the others are gone.
    for (const page of pages) await page.close().catch(() => undefined);
    await server.close();
    for (const at of folders) await forget(at);
  };
  return { t, end };
}

function described(error) {
  const said = String(error?.stack ?? error);
  return error?.cause === undefined ? said : `${said}\ncaused by ${described(error.cause)}`;
}
