// Runs suites, each in a page of its own.

import { Browser, forget } from "./browser.mjs";
import { Firefox } from "./firefox.mjs";
import { freshFolder, site } from "./site.mjs";

/**
 * The longest silence of a page, in milliseconds. The page itself gives up a test that hangs (`TIMEOUT` in kit.js, or the
 * suite's `timeout`, once for the test and once for what it leaves behind): this is for a page that has died.
 */
const TIMEOUT = 300_000;
/** Lets suites collect garbage when they want to. */
const COLLECTS = ["--js-flags=--expose-gc"];

/** A browser and a server for the suites that run one after the other. */
export class SuiteRunner {
  #server;
  #browser;
  #profile;
  #kind;

  /** The results of a suite. */
  async run(name, mode) {
    this.#server ??= await site();
    await this.#start(mode === "worker" ? "default" : mode);
    const page = await this.#browser.open(this.#server.url("/tests/web/page.html"));
    const results = [];
    try {
      await page.waitForFunction(() => globalThis.startSuite);
      await page.evaluate((asked) => globalThis.startSuite(...asked), [`/tests/web/suite/${name}`, mode === "firefox" ? "default" : mode]);
      const next = () => within(page.evaluate(() => globalThis.nextResult()));
      for (let result = await next(); result !== undefined; result = await next()) results.push(result);
      // The kit reports errors in tests; these are errors between tests.
      if (page.problems.length > 0) results.push(failed("between the tests", page.problems.join("\n")));
    } catch (error) {
      results.push(failed("the suite as a whole", [error?.stack ?? error, ...page.problems].join("\n")));
    } finally {
      await page.close().catch(() => undefined);
    }
    return results;
  }

  /** Starts a browser of this kind, unless it runs. */
  async #start(kind) {
    if (this.#browser !== undefined && this.#kind === kind) return;
    await this.end();
    this.#kind = kind;
    if (kind === "firefox") {
      this.#browser = await Firefox.launch();
    } else {
      this.#profile = await freshFolder("suites");
      this.#browser = await Browser.launch({ profile: this.#profile, sqlite: kind === "sqlite", flags: COLLECTS });
    }
  }

  async end() {
    await this.#browser?.close();
    if (this.#profile !== undefined) await forget(this.#profile);
    this.#browser = this.#profile = undefined;
  }
}

const failed = (name, error) => ({ name, took: 0, error: String(error) });

function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${TIMEOUT} ms`)), TIMEOUT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
