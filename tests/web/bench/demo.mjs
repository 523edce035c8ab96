// The demo as a visitor on a slow network sees it: the first visit, and the second one after a restart.

import { stat } from "node:fs/promises";
import path from "node:path";

import { compared, figure, missing } from "./rows.mjs";
import { Scene } from "./scene.mjs";
import { ROOT } from "../site.mjs";

/** Bits a second, and milliseconds that each answer is late. */
const NETWORK = { bits: 20e6, latency: 20 };

/** How much sooner the second visit has its first answer. */
const SOONER = 8;

/** The longest visit, in milliseconds. */
const PATIENCE = 240_000;

export async function demo({ quick }) {
  const name = "demo/first_answer/second_visit";
  if (!(await isThere())) return [missing(name, "web-demo is not there")];
  const { mountDemo } = await import("../demo-site.mjs");
  const visits = { first: [], second: [] };
  for (let time = 0; time < (quick ? 1 : 2); time += 1) {
    await Scene.play(async (scene) => {
      const url = await mountDemo({ server: scene.server });
      visits.first.push(await visit(scene, url, "first"));
      visits.second.push(await visit(scene, url, "second"));
    });
  }
  const perMs = 1;
  return [
    {
      ...compared(name, { ours: visits.second, theirs: visits.first, against: "first visit", perMs, bound: SOONER }),
      ...milliseconds(visits),
    },
    figure("demo/first_answer/first_visit", { samples: visits.first, unit: "ms" }),
  ];
}

function isThere() {
  const files = ["web-demo/package.json", "tests/web/demo-site.mjs"].map((file) => path.join(ROOT, file));
  return Promise.all(files.map((file) => stat(file))).then(() => true, () => false);
}

/** Milliseconds from the start of the page to the first answer, as the page itself says. */
async function visit(scene, url, expected) {
  const page = await scene.blank();
  await scene.browser.throttle(page, NETWORK.bits, NETWORK.latency);
  await page.goto(url);
  const root = () => ({ ...document.documentElement.dataset });
  await page.waitForFunction(() => document.documentElement.dataset.state !== "starting", null, { timeout: PATIENCE });
  const { state, visit: which, firstAnswer } = await page.evaluate(root);
  if (state !== "ready") throw new Error(`the demo failed: ${await page.textContent("#told")}`);
  if (which !== expected) throw new Error(`the demo says that the ${expected} visit is the ${which} one`);
  return Number(firstAnswer);
}

function milliseconds({ first, second }) {
  return { ours: figure("", { samples: second }).value, theirs: figure("", { samples: first }).value, measured: "ms" };
}
