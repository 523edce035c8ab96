// A browser on a fresh profile, which can be restarted as after a night.

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";

import { Browser, forget } from "../browser.mjs";
import { freshFolder, site } from "../site.mjs";

const run = promisify(execFile);

/** How long a browser that has just started is still busy, in milliseconds. */
const SETTLE_MS = 1000;

/** A server, a profile, and one browser at a time on it. */
export class Scene {
  #profile;
  #browser;

  /** Hands a new scene to `work`; afterwards nothing is left of it. */
  static async play(work) {
    const scene = new Scene();
    scene.server = await site();
    scene.#profile = await freshFolder("bench");
    try {
      return await work(scene);
    } finally {
      await scene.#browser?.close();
      await scene.server.close();
      await forget(scene.#profile);
    }
  }

  /** A page of a browser that was started for it, and reads its files from the disk. */
  async page(path = "/tests/web/bench/page/index.html") {
    const page = await this.blank();
    await page.goto(this.server.url(path));
    await setTimeout(SETTLE_MS);
    return page;
  }

  /** The same, without anything in it. */
  async blank() {
    await this.#browser?.close();
    await dropPageCache(this.#profile);
    this.#browser = await Browser.launch({ profile: this.#profile });
    return this.#browser.open("about:blank");
  }

  get browser() {
    return this.#browser;
  }
}

/** Runs one measurement of a module in `page/`. */
export function measure(page, file, name, argument = {}) {
  return page.evaluate(([...wanted]) => globalThis.measure(...wanted), [file, name, argument]);
}

let said = false;

/** Has the machine forget what it read of the disk; where it may not, what it read of the profile. */
async function dropPageCache(profile) {
  if (process.platform !== "linux") return say("the page cache cannot be dropped here, so nothing is quite cold");
  await run("sync");
  try {
    await writeFile("/proc/sys/vm/drop_caches", "3");
  } catch {
    say("only root may drop the page cache: of each file of the profile it is dropped, and Chromium itself stays in it");
    await run("find", [profile, "-type", "f", "-exec", "dd", "if={}", "iflag=nocache", "count=0", "status=none", ";"]);
  }
}

function say(line) {
  if (!said) console.log(line);
  said = true;
}
