// Controls Chromium on a persistent profile: quota, throttling, closing and killing.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm } from "node:fs/promises";

import { chromium as protocol } from "playwright-core";

import { chromium } from "./chromium.mjs";

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Containers have little of it.
  "--disable-dev-shm-usage",
  // Tabs in the background run as fast as the others.
  "--disable-background-timer-throttling",
  "--disable-backgrounding-occluded-windows",
  "--disable-renderer-backgrounding",
  "--remote-debugging-port=0",
];

/** WebGPU without a GPU. */
const WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];

/** IndexedDB as Chromium will keep it. */
const SQLITE = ["--enable-features=IdbSqliteBackingStore"];

/** The longest time for Chromium to start or to end, in milliseconds. */
const TIMEOUT = 30_000;

/** A running Chromium. */
export class Browser {
  #process;
  #connection;
  #context;
  #sessions = new Map();

  /** Starts Chromium on the profile in a folder. `sqlite` and `webgpu` enable these features. */
  static async launch({ profile, sqlite = false, webgpu = true, flags = [] }) {
    const all = [...FLAGS, ...(webgpu ? WEBGPU : []), ...(sqlite ? SQLITE : [])];
    const there = await chromium();
    if (there === undefined) throw new Error("there is no Chromium: install it, or name one by CHROMIUM");
    const { program, env } = there;
    const options = { detached: true, env, stdio: ["ignore", "ignore", "pipe"] };
    const started = spawn(program, [...all, ...flags, `--user-data-dir=${profile}`, "about:blank"], options);
    running.add(started);
    started.once("exit", () => running.delete(started));
    const browser = new Browser();
    browser.#process = started;
    try {
      browser.#connection = await protocol.connectOverCDP(await endpoint(started));
    } catch (error) {
      killed(started);
      throw error;
    }
    browser.#context = browser.#connection.contexts()[0];
    return browser;
  }

  /** Opens a page of a URL. `page.problems` collects its uncaught errors. */
  async open(url) {
    const page = await this.#context.newPage();
    page.problems = [];
    page.on("pageerror", (error) => page.problems.push(String(error?.stack ?? error)));
    page.on("crash", () => page.problems.push("the page crashed"));
    await page.goto(url);
    return page;
  }

  /** Sets the quota of an origin in bytes; without a size, restores the default. */
  async quota(page, bytes) {
    const session = await this.#session(page);
    const origin = new URL(page.url()).origin;
    await session.send("Storage.overrideQuotaForOrigin", bytes === undefined ? { origin } : { origin, quotaSize: bytes });
  }

  /** Slows down the network of a page, to bits per second with a delay in milliseconds. */
  async throttle(page, bitsPerSecond, latency = 0) {
    const session = await this.#session(page);
    await session.send("Network.enable");
    const rate = bitsPerSecond / 8;
    const conditions = { offline: false, latency, downloadThroughput: rate, uploadThroughput: rate };
    await session.send("Network.emulateNetworkConditions", conditions);
  }

  /** Closes it as a user would. Acknowledged data is on the disk, or on its way there. */
  async close() {
    const ended = this.#ended();
    const session = await this.#connection.newBrowserCDPSession().catch(() => undefined);
    await session?.send("Browser.close").catch(() => undefined);
    await ended;
  }

  /** Kills all of its processes. */
  async kill() {
    const ended = this.#ended();
    killed(this.#process);
    await ended;
  }

  /** Returns the session of the DevTools protocol. It is reused, because its settings end with it. */
  async #session(page) {
    if (!this.#sessions.has(page)) this.#sessions.set(page, await this.#context.newCDPSession(page));
    return this.#sessions.get(page);
  }

  async #ended() {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const timer = setTimeout(() => killed(this.#process), TIMEOUT);
    await once(this.#process, "exit");
    clearTimeout(timer);
    await this.#connection.close().catch(() => undefined);
  }
}

/** Removes a profile. Processes that were just ended may still write into it for a moment. */
export function forget(profile) {
  return rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

const running = new Set();

// Every browser ends with the run.
process.on("exit", () => running.forEach(killed));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

function killed(started) {
  // The program could not be started.
  if (started.pid === undefined) return;
  try {
    // Chromium was made the leader of a group of its own, and its helpers are in it.
    process.kill(-started.pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** Where Chromium listens, as it says itself. */
async function endpoint(started) {
  let said = "";
  const found = new Promise((resolve, reject) => {
    started.stderr.setEncoding("utf8").on("data", (text) => {
      // Later it says much that is not needed.
      if (said.length < 64 << 10) said += text;
      const match = /DevTools listening on (ws:\S+)/.exec(said);
      if (match) resolve(match[1]);
    });
    started.once("error", (error) => reject(new Error(`Chromium did not start: ${error.message}`)));
    started.once("exit", () => reject(new Error(`Chromium ended at once:\n${said}`)));
  });
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`Chromium did not listen in time:\n${said}`)), TIMEOUT).unref();
  });
  return Promise.race([found, late]);
}
