// The demo's page: three visits, its four trials, without WebGPU, in two tabs; how it looks.

import { mountDemo, requestsForKept } from "../demo-site.mjs";

export const deep = true;
/** The first use builds the demo's site, and fetches packages and weights where they are not there. */
export const timeout = 600_000;

/** The longest time until an answer, or until a trial ends, in milliseconds. */
const LONG = 240_000;

const MODEL = "/demo/models/minilm/onnx/model.onnx";

export const cases = {
  "a killed first visit resumes, and three visits are compared": async (t) => {
    const ranges = [];
    const url = await mountDemo(t, ({ url, headers }) => url === MODEL && ranges.push(headers.range));
    const killed = await t.launch();
    const half = await killed.open("about:blank");
    await killed.throttle(half, 80e6);
    await half.goto(url);
    // Pieces of the model are stored while more of it arrives.
    await half.waitForFunction(() => /part of model.onnx/.test(document.querySelector("#entries").textContent), null, { timeout: LONG });
    await killed.kill();
    t.equal(ranges, [undefined], "requests for the model");

    const first = await t.launch();
    const page = await visit(first, url);
    t.equal(await state(page, "visit"), "first");
    t.equal(ranges.length, 2, "requests for the model, with the resumed one");
    t.ok(/^bytes=[1-9]\d*-$/.test(ranges[1]), `the range that the second one asks for: ${ranges[1]}`);
    t.equal((await texts(page, "#results li")).length, 5, "passages that answer");
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    await page.reload();
    await arrived(page);
    t.equal(await state(page, "visit"), "second");
    await first.close();

    t.server.counts.clear();
    const second = await t.launch();
    const again = await visit(second, url);
    t.equal(await state(again, "visit"), "second");
    t.equal(requestsForKept(t), 0, "requests for what the cache holds");
    // What was asked before the restart is kept.
    await asks(t, again, "What makes dough rise?", /Yeast eats sugar/);
    t.ok(/kept answer/.test(await again.textContent("#told")), await again.textContent("#told"));
    await runs(t, again, "measure");
    t.equal(requestsForKept(t), 0, "requests of a second visit with the default cache");
    const times = await Promise.all(
      ["first", "default", "warm"].map((visit) => texts(again, `#visits tbody td.${visit} .time`)),
    );
    t.ok(times.flat().every((text) => /\d (ms|s)$/.test(text)) && times.flat().length === 18, `a time in every cell: ${times}`);
    t.ok(/default cache.*warmstart/s.test(await again.textContent("#headline")), "the headline compares them");
    t.equal(await again.evaluate(() => shifts), [], "elements that moved without the visitor");
    await copies(t, again);
    await looks(t, again);
    t.equal([...page.problems, ...again.problems], []);
  },

  "only the default cache serves a flipped byte": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch();
    const page = await visit(browser, url);
    t.equal(t.server.requests(MODEL), 1, "downloads of the model");
    await runs(t, page, "damage");
    const [change, theirs, ours] = await texts(page, "#damage-result p");
    t.ok(/The weight .* became /.test(change), change);
    const alike = (text) => Number(/ (-?\d+) of 100 alike/.exec(text)?.[1]);
    t.ok(/served the damaged model/.test(theirs) && alike(theirs) < 60, theirs);
    t.ok(/checksum_mismatch.*fetched 90 MB again/.test(ours) && alike(ours) === 100, ours);
    t.equal(t.server.requests(MODEL), 2, "downloads of the model, with the one that replaces it");
    t.equal(await page.evaluate(() => shifts), [], "elements that moved without the visitor");
    // The page goes on, and the next visit finds everything.
    await page.reload();
    await arrived(page);
    t.equal(await state(page, "visit"), "second");
    t.equal(t.server.requests(MODEL), 2);
    t.equal(page.problems, []);
  },

  "a killed download resumes; of two tabs one builds": async (t) => {
    const ranges = [];
    const url = await mountDemo(t, ({ url, headers }) => /runtime\.wasm/.test(url) && ranges.push(headers.range));
    const browser = await t.launch();
    const page = await visit(browser, url, 390);
    ranges.length = 0;
    await runs(t, page, "kill");
    t.equal(ranges.length, 2);
    t.ok(/^bytes=[1-9]\d*-$/.test(ranges[1]), `the range of the second request: ${ranges[1]}`);
    t.ok(/resumed after 8.4 MB/.test(await page.textContent("#kill-result")), await page.textContent("#kill-result"));

    const opening = page.waitForEvent("popup");
    await runs(t, page, "race");
    const tab = await opening;
    const told = [...(await texts(page, "#race-result p")), await tab.textContent("#result")];
    const builders = told.slice(0, 2).filter((text) => /compressed it/.test(text));
    const waiters = told.slice(0, 2).filter((text) => /waited .* and received it/.test(text));
    t.equal([builders.length, waiters.length], [1, 1], told.join(" "));
    t.ok(told[1].endsWith(told[2].replace("This tab ", "")), "the second tab says the same");
    t.equal(await page.evaluate(() => shifts), [], "elements that moved without the visitor, on a phone");
    t.equal(page.problems, []);
  },

  "without WebGPU the page answers all the same": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch({ webgpu: false });
    const page = await visit(browser, url);
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    t.ok(/Neighbours are found in JavaScript/.test(await page.textContent("#machine")), "it says how it searches");
    t.equal(page.problems, []);
  },

  "two tabs that open at once download the model once": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch();
    const tabs = await Promise.all([browser.open(url), browser.open(url)]);
    await Promise.all(tabs.map(arrived));
    t.equal(t.server.requests(MODEL), 1, "downloads of the model");
  },

  "a lower bound evicts the model, and clearing removes all": async (t) => {
    const url = await mountDemo(t);
    const browser = await t.launch();
    const page = await visit(browser, url);
    t.ok((await texts(page, "#entries .stored th")).includes("model.onnx"), "the list has the model");
    await runs(t, page, "shrink");
    t.ok(/Evicted, the least recently used first: .*model\.onnx/.test(await page.textContent("#shrink-result")), "it says what went");
    t.ok(!(await texts(page, "#entries .stored th")).includes("model.onnx"), "the model went");
    t.ok((await texts(page, "#entries .gone th")).includes("model.onnx"), "the list says that it went");
    // What was used later is still stored.
    t.ok((await texts(page, "#entries .stored th")).some((name) => /^embeddings/.test(name)), "the embeddings stayed");
    await asks(t, page, "What makes dough rise?", /Yeast eats sugar/);
    const times = () => texts(page, "#visits .time");
    const before = await times();
    await runs(t, page, "measure", "failed");
    t.ok(/allow 400 MB again, and reload/.test(await page.textContent("#measure-result")), "it says what to do");
    t.equal(await times(), before, "no visit is left half measured");
    await page.reload();
    await arrived(page);
    t.equal(await state(page, "visit"), "first", "what is too large is downloaded again");
    t.equal(await page.getAttribute("#shrink", "aria-pressed"), "true");
    // The list of pipelines has just changed, and stores itself 300 ms later if nothing prevents it.
    await runs(t, page, "clear");
    t.equal(await texts(page, "#entries .stored th"), []);
    await page.waitForTimeout(700);
    t.equal(await texts(page, "#entries .stored th"), [], "entries some time after the clearing");
    await asks(t, page, "Why do cats always land well?", /Cats land on their feet/);
    await runs(t, page, "shrink");
    t.equal(await page.getAttribute("#shrink", "aria-pressed"), "false");
    t.equal(page.problems, []);
  },
};

async function visit(browser, url, width = 1280) {
  const page = await browser.open("about:blank");
  await page.setViewportSize({ width, height: 900 });
  // Elements that moved, without an input of the visitor just before.
  await page.addInitScript(() => {
    globalThis.shifts = [];
    const seen = (entry) => !entry.hadRecentInput && shifts.push(`${entry.value}: ${entry.sources.map(({ node }) => node?.id || node?.className || node?.nodeName)}`);
    new PerformanceObserver((list) => list.getEntries().forEach(seen)).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(url);
  await arrived(page);
  return page;
}

async function arrived(page) {
  await page.waitForFunction(() => document.documentElement.dataset.state !== "starting", null, { timeout: LONG });
  if ((await state(page, "state")) !== "ready") throw new Error(await page.textContent("#told"));
}

function state(page, name) {
  return page.evaluate((name) => document.documentElement.dataset[name], name);
}

function texts(page, selector) {
  return page.locator(selector).allTextContents();
}

/** Presses a button, with the keyboard, and waits until its job has ended well. */
async function runs(t, page, id, end = "done") {
  await page.waitForFunction((id) => document.getElementById(id).ariaDisabled === "false", id, { timeout: LONG });
  await page.focus(`#${id}`);
  await page.keyboard.press("Enter");
  await page.waitForFunction((id) => document.documentElement.dataset[id] !== undefined, id, { timeout: LONG });
  const said = await page.evaluate((id) => document.getElementById(`${id}-result`)?.textContent ?? happened.textContent, id);
  t.equal(await state(page, id), end, said);
  t.equal(await page.evaluate(() => document.activeElement.id), id, "the button keeps the focus");
}

/** Asks as a visitor does, and looks for a passage among the first three. */
async function asks(t, page, question, wanted) {
  await page.fill("#question", question);
  await page.press("#question", "Enter");
  await page.waitForFunction((question) => document.documentElement.dataset.answered === question, question, { timeout: LONG });
  const found = (await texts(page, "#results .passage")).slice(0, 3);
  t.ok(found.some((text) => wanted.test(text)), `${question}: ${found.join(" | ")}`);
}

/** The three lines are copied as they stand. */
async function copies(t, page) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.bringToFront();
  await page.click("#copy");
  await page.waitForFunction(() => copied.textContent !== "");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  t.equal(copied.split("\n").length, 3, copied);
  t.ok(/^import \{ asTransformersCache, open \} from "warmstart";/.test(copied), copied);
}

/** Takes screenshots as on a desk and as on a phone, by day and by night. Nothing may stick out sideways. */
async function looks(t, page) {
  for (const [width, colorScheme] of [
    [1280, "light"],
    [390, "light"],
    [1280, "dark"],
    [390, "dark"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(600); // until bars have grown to their length
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    t.equal(wide, 0, `pixels that stick out at ${width}`);
    await page.screenshot({ path: await t.screenshot(`demo-${width}-${colorScheme}.png`), fullPage: true });
  }
}
