// The demo's page: cold, warm, without WebGPU, in two tabs; what its buttons do; how it looks.

import { mountDemo, requestsForKept } from "../demo-site.mjs";

export const deep = true;
/** The first use builds the demo's site, and fetches packages and weights where they are not there. */
export const timeout = 600_000;

/** How long a visit may take until the first answer, in milliseconds. */
const VISIT = 240_000;

export const cases = {
  "the first visit answers, a reload answers warm, and so does a visit after a restart": async (t) => {
    const url = await mountDemo(t);
    const first = await t.launch();
    const page = await visit(first, url);
    t.equal(await state(page, "visit"), "first");
    t.ok((await texts(page, "#results li")).length === 5, "five passages answer");
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    await looks(t, page, "demo-first");
    await page.reload();
    await arrived(page);
    t.equal(await state(page, "visit"), "second");
    await first.close();

    t.server.counts.clear();
    const second = await t.launch();
    const again = await visit(second, url);
    t.equal(await state(again, "visit"), "second");
    t.equal(requestsForKept(t), 0, "requests for what the cache holds");
    await asks(t, again, "Which animal dances for its family?", /Honey bees dance/);
    const bars = (await texts(again, "#bars tr.total .time")).filter((text) => /\d (ms|s)$/.test(text));
    t.equal(bars.length, 2, "both visits have a bar");
    t.ok(/× sooner/.test(await again.textContent("#headline")), "the headline compares them");
    await looks(t, again, "demo-second");
    // What was asked before the restart comes out of the cache.
    await asks(t, again, "What makes dough rise?", /Yeast eats sugar/);
    t.ok(/out of the cache/.test(await again.textContent("#told")), await again.textContent("#told"));
    t.equal([...page.problems, ...again.problems], []);
  },

  "without WebGPU the page answers all the same": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch({ webgpu: false });
    const page = await visit(browser, url);
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    t.ok(
      /Neighbours are found in JavaScript/.test(await page.textContent("#machine")),
      "it says how it searches",
    );
    t.equal(page.problems, []);
  },

  "two tabs that open at once download the model once": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch();
    const tabs = await Promise.all([browser.open(url), browser.open(url)]);
    await Promise.all(tabs.map(arrived));
    t.equal(t.server.requests("/demo/models/minilm/onnx/model.onnx"), 1, "downloads of the model");
  },

  "a smaller bound lets the model go and the page goes on; clearing leaves nothing": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch();
    const page = await visit(browser, url);
    t.ok((await texts(page, "#holdings .held th")).includes("model.onnx"), "the list has the model");
    await page.click("#shrink");
    await page.waitForFunction(() =>
      /model\.onnx.*went to make room/s.test(document.querySelector("#holdings").innerText),
    );
    t.ok(!(await texts(page, "#holdings .held th")).includes("model.onnx"), "the model went");
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    await page.reload();
    await arrived(page);
    t.equal(await state(page, "visit"), "first", "what is too large is downloaded again");
    t.equal(await page.getAttribute("#shrink", "aria-pressed"), "true");
    // The list of pipelines has just changed, and stores itself 300 ms later if nothing prevents it.
    await page.click("#clear");
    await page.waitForFunction(() => document.querySelectorAll("#holdings .held").length === 0);
    await page.waitForTimeout(700);
    t.equal(await texts(page, "#holdings .held th"), [], "entries some time after the clearing");
    await asks(t, page, "Why do cats always land well?", /Cats land on their feet/);
    await page.click("#shrink");
    await page.waitForFunction(
      () => document.querySelector("#shrink").getAttribute("aria-pressed") === "false",
    );
    t.equal(page.problems, []);
  },
};

async function visit(browser, url) {
  const page = await browser.open(url);
  await arrived(page);
  return page;
}

async function arrived(page) {
  await page.waitForFunction(() => document.documentElement.dataset.state !== "starting", null, {
    timeout: VISIT,
  });
  if ((await state(page, "state")) !== "ready") throw new Error(await page.textContent("#told"));
}

function state(page, name) {
  return page.evaluate((name) => document.documentElement.dataset[name], name);
}

function texts(page, selector) {
  return page.locator(selector).allTextContents();
}

/** Asks as a visitor does, and looks for a passage among the first three. */
async function asks(t, page, question, wanted) {
  await page.fill("#question", question);
  await page.press("#question", "Enter");
  await page.waitForFunction((question) => document.documentElement.dataset.answered === question, question);
  const found = (await texts(page, "#results .passage")).slice(0, 3);
  t.ok(
    found.some((text) => wanted.test(text)),
    `${question}: ${found.join(" | ")}`,
  );
}

/** Takes screenshots as on a desk and as on a phone, by day and by night. Nothing may stick out sideways. */
async function looks(t, page, name) {
  for (const [width, colorScheme] of [
    [1280, "light"],
    [390, "light"],
    [1280, "dark"],
    [390, "dark"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(600); // until bars have grown to their length
    const wide = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    t.equal(wide, 0, `pixels that stick out at ${width}`);
    await page.screenshot({
      path: await t.screenshot(`${name}-${width}-${colorScheme}.png`),
      fullPage: true,
    });
  }
}
