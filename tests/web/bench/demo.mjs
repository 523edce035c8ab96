// The demo as a visitor on a slow network sees it: the first visit, and the second one after a restart.

import { stat } from "node:fs/promises";
import path from "node:path";

import { compared, missing } from "./rows.mjs";
import { Scene } from "./scene.mjs";
import { ROOT } from "../site.mjs";

/** Bits a second, and milliseconds that each answer is late. */
const NETWORK = { bits: 20e6, latency: 20 };

/** How much sooner the second visit has its first answer. */
const SOONER = 8;

/** The longest visit, in milliseconds. */
const TIMEOUT = 240_000;

export async function demo({ quick }) {
  const name = "demo/first_answer";
  if (!(await isThere())) return [missing(name, "web-demo is not there")];
  const { mountDemo } = await import("../demo-site.mjs");
  const visits = { first: [], second: [] };
  for (let time = 0; time < (quick ? 1 : 2); time += 1) {
    await Scene.play(async (scene) => {
      const url = await mountDemo({ server: scene.server });
      for (const which of ["first", "second"]) visits[which].push(await visit(scene, url, which));
    });
  }
  const { first: theirs, second: ours } = visits;
  return [compared(name, { ours, theirs, against: "the first visit", bound: SOONER })];
}

function isThere() {
  const files = ["web-demo/package.json", "tests/web/demo-site.mjs"].map((file) => path.join(ROOT, file));
  return Promise.all(files.map((file) => stat(file))).then(() => true, () => false);
}

/** Milliseconds from the start of the page to the first answer, as the page itself says. */
async function visit(scene, url, expected) {
  const page = await scene.blank();
  scene.server.counts.clear();
  await scene.browser.throttle(page, NETWORK.bits, NETWORK.latency);
  await page.goto(url);
  const root = () => ({ ...document.documentElement.dataset });
  const arrived = () => document.documentElement.dataset.state !== "starting";
  await page.waitForFunction(arrived, null, { timeout: TIMEOUT });
  const { state, visit: which, firstAnswer } = await page.evaluate(root);
  if (state !== "ready") throw new Error(`the demo failed: ${await page.textContent("#told")}`);
  if (which !== expected) throw new Error(`the demo says that the ${expected} visit is the ${which} one`);
  const least = ((await bytesAskedFor(scene.server)) * 8000) / NETWORK.bits;
  if (firstAnswer < least) {
    throw new Error(`the network was not slow: ${firstAnswer} ms where ${least} are needed`);
  }
  return Number(firstAnswer);
}

/** The bytes of everything that was asked for. */
async function bytesAskedFor(server) {
  const files = [...server.counts.keys()].map((file) => fetch(server.url(file), { method: "HEAD" }));
  const lengths = (await Promise.all(files)).map(({ headers }) => Number(headers.get("content-length")));
  return lengths.reduce((sum, length) => sum + length, 0);
}
