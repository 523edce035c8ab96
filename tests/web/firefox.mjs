// Controls Firefox by WebDriver BiDi: the one that FIREFOX names, or that of the machine. Playwright drives only builds of its own.

import puppeteer from "puppeteer-core";

import { onPath } from "./chromium.mjs";

/** Pages in the background run as fast as the others. */
const PREFERENCES = { "dom.min_background_timeout_value": 4, "dom.timeout.enable_budget_timer_throttling": false };

/** Firefox also logs the error of a stream inside a Response whose rejection the page handles. */
const HANDLED = /^Failed to read data from the ReadableStream/;

/** Returns Firefox's program, or nothing where there is none. */
export function firefox() {
  return process.env.FIREFOX || onPath(["firefox-esr", "firefox"]);
}

/** A running Firefox, on a fresh profile that is removed with it. */
export class Firefox {
  #browser;

  static async launch() {
    const started = new Firefox();
    started.#browser = await puppeteer.launch({
      browser: "firefox",
      executablePath: firefox(),
      extraPrefsFirefox: PREFERENCES,
    });
    return started;
  }

  /** Opens a page of a URL. `page.problems` collects its uncaught errors. */
  async open(url) {
    const page = await this.#browser.newPage();
    page.problems = [];
    page.on("pageerror", (error) => {
      if (!HANDLED.test(error.message)) page.problems.push(String(error.stack ?? error));
    });
    await page.goto(url);
    return page;
  }

  close() {
    return this.#browser.close();
  }
}
