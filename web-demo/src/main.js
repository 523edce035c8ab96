// The page: shows what the worker tells, and sends it requests.

import { questions } from "./passages.js";
import { $, element, size } from "./ui/dom.js";
import { Engine } from "./ui/engine.js";
import { EntryList } from "./ui/entries.js";
import { Results } from "./ui/results.js";
import { load, save } from "./ui/stored.js";
import { outcome, runTrial } from "./ui/trial.js";
import { Visits } from "./ui/visits.js";

const MEGABYTE = 1e6;
const FULL = 400 * MEGABYTE;
const LOWERED = 64 * MEGABYTE;

const state = document.documentElement.dataset;
const site = new URL(".", document.baseURI).href;
// ?device=wasm or webgpu chooses where the model runs; with ?device=none the kernels do not use the graphics processor
// either.
const wanted = new URL(location.href).searchParams.get("device") ?? undefined;
let maxBytes = load("maxBytes") ?? FULL;

const results = new Results($("results"), $("told"), $("way"));
const visits = new Visits($("visits"), $("headline"));
const entries = new EntryList($("entries"), $("usage"), $("full"));
/** The visit that this page is, once known. */
let visit;
/** Where the model runs, once it is ready. */
let device;
/** The first answer, by the intact model. */
let intact;
let asked = 0;
/** The question that was asked before the model was ready. */
let waiting;
/** The entries that were evicted since the last trial. */
let evicted = [];

const handlers = {
  gpu({ available, name, software }) {
    const kind = software ? `${name} (software)` : name;
    $("machine").textContent = available ? `WebGPU: ${kind}.` : `No WebGPU: ${name}.`;
  },
  visit({ isFirst }) {
    visit = isFirst ? "first" : "warm";
    visits.begin(visit);
  },
  phase(message) {
    if (visit !== undefined) visits.phase(visit, message);
    if (message.state === "running") results.coming(message);
  },
  kept(answer) {
    if (waiting === undefined) results.early(answer);
  },
  ready(message) {
    ({ device } = message);
    results.ready();
    visits.finish(visit, message.phases);
    describeMachine(message);
    state.state = "ready";
    state.visit = visit === "first" ? "first" : "second";
    state.firstAnswer = Math.round(message.phases.total);
    if (waiting !== undefined) search(waiting);
    setBusy(false);
  },
  answer(answer) {
    intact ??= answer;
    if (answer.id !== undefined ? answer.id !== asked : waiting !== undefined || asked > 0) return;
    results.show(answer);
    state.answered = answer.question;
  },
  entries(message) {
    evicted.push(...entries.show(message, maxBytes));
  },
  warning: ({ message }) => ($("happened").textContent = message),
  failed({ id, message }) {
    results.failed(message);
    if (id === undefined && device === undefined) state.state = "failed";
  },
};

const engine = new Engine((message) => handlers[message.type]?.(message));
engine.send({ type: "visit", keeps: "warmstart", site, origin: performance.timeOrigin, maxBytes, device: wanted });

function search(question) {
  $("question").value = question;
  if (device === undefined) {
    waiting = question;
    return results.waits(question);
  }
  waiting = undefined;
  results.busy();
  engine.send({ type: "ask", id: ++asked, question });
}

function describeMachine({ search }) {
  const runs = device === "webgpu" ? "The model runs on WebGPU." : "The model runs on WebAssembly.";
  const kernel =
    search.where === "WebGPU"
      ? `The fastest kernel here is “${search.name}” with ${search.size} threads: ${search.us.toFixed(0)} µs a search.`
      : `Neighbours are found in JavaScript: ${search.why}.`;
  $("machine").append(` ${runs} ${kernel}`);
}

/** Measures the second visit with both caches, each in a new worker. */
async function measure(show) {
  await fill(show);
  show("Each second visit runs in a new worker.");
  await secondVisit("default", "default");
  await secondVisit("warm", "warmstart");
  show();
}

/** Stores the files in the cache that transformers.js uses as it is shipped. */
async function fill(show) {
  show("Filling the default cache.");
  const { absent } = await engine.ask({ type: "fill" }, "filled");
  if (absent === 0) return;
  const way = maxBytes === FULL ? "reload the page, which fetches them" : `allow ${FULL / MEGABYTE} MB again, and reload the page`;
  throw new Error(`files were evicted; ${way}`);
}

async function secondVisit(visit, keeps) {
  const { promise, resolve, reject } = Promise.withResolvers();
  const worker = new Engine((message) => {
    if (message.type === "phase") visits.phase(visit, message);
    else if (message.type === "ready") resolve(message);
    else if (message.type === "failed") reject(new Error(message.message));
    else if (message.type === "visit" && message.isFirst) reject(new Error("files are missing; reload the page"));
  });
  try {
    visits.begin(visit);
    const origin = performance.timeOrigin + performance.now();
    worker.send({ type: "visit", keeps, site, origin, maxBytes, device: wanted });
    visits.finish(visit, (await promise).phases);
  } catch (error) {
    visits.cancel(visit);
    throw error;
  } finally {
    worker.end();
  }
}

/** Flips a byte of the stored model, and starts the model from each cache. */
async function damage(show) {
  await fill(show);
  const { before, after } = await runTrial("damage", { device });
  const change = `The weight ${before.toPrecision(3)} became ${after.toPrecision(3)}.`;
  show(`${change} Starting the model from the default cache.`);
  try {
    const theirs = await runTrial("probe", { device, keeps: "default", maxBytes });
    const served = `Default cache: served the damaged model without an error. ${await answerBy(theirs)}`;
    show(change, served, "Starting the model from warmstart.");
    const ours = await runTrial("probe", { device, keeps: "warmstart", maxBytes });
    const found = ours.reason ? `found the damage (${ours.reason}), and fetched ${size(ours.fetched)} again` : "found no damage";
    show(change, served, `warmstart: ${found}. ${await answerBy(ours)}`);
  } finally {
    await runTrial("mend", { device });
  }
}

/** Describes the answer by a model that may be damaged. */
async function answerBy({ vector }) {
  const { hits } = await engine.ask({ type: "near", vector }, "near");
  const likeness = vector.reduce((sum, value, index) => sum + value * intact.vector[index], 0);
  return `Its embedding of the first question is ${(100 * likeness).toFixed(0)} of 100 alike the right one; it answers “${hits[0].text}”`;
}

/** Ends a download half way, and starts it again. */
async function kill(show) {
  let killedAt;
  await runTrial("download", { device, stalls: true }, ({ loaded, total, stored }, end) => {
    show(`Downloading: ${size(loaded)} of ${size(total)}.`);
    if (!stored) return;
    killedAt = loaded;
    end();
  });
  const { resumedAt, total } = await runTrial("download", { device });
  const rest = total - resumedAt;
  show(
    `Killed after ${size(killedAt)} of ${size(total)}.`,
    resumedAt > 0
      ? `The next worker resumed after ${size(resumedAt)}, which were stored, and fetched the other ${size(rest)}.`
      : "The next worker began again: this server supports no ranges.",
  );
}

/** Wants the same value in this tab and in another. */
async function race(show) {
  const run = crypto.randomUUID();
  const channel = new BroadcastChannel(`warmstart-demo ${run}`);
  const other = new Promise((resolve) => (channel.onmessage = ({ data }) => resolve(data)));
  const address = new URL(`tab.html?${new URLSearchParams({ run, device })}`, site);
  const opened = window.open(address, "_blank", "popup,width=460,height=320");
  if (!opened) throw new Error("the browser did not open a second tab; allow it, and try again");
  show("Waiting for the second tab.");
  const [mine, its] = await Promise.all([runTrial("race", { device, run }), other]);
  channel.close();
  show(`This tab ${outcome(mine)}.`, `The second tab ${outcome(its)}.`);
}

/** Lowers the bound of the cache, or raises it again. */
async function shrink(show) {
  evicted = [];
  maxBytes = maxBytes > LOWERED ? LOWERED : FULL;
  save("maxBytes", maxBytes);
  await engine.ask({ type: "resize", maxBytes }, "resized");
  showBound();
  // The list of entries begins with the most recently used one.
  const names = evicted.reverse().map(({ name, size: bytes }) => `${name} (${size(bytes)})`).join(", ");
  if (maxBytes === FULL) show("There is room for everything again. Evicted files are downloaded at the next visit.");
  else show(names ? `Evicted, the least recently used first: ${names}.` : "Everything fits.");
}

function showBound() {
  const isLowered = maxBytes <= LOWERED;
  $("shrink").setAttribute("aria-pressed", String(isLowered));
  $("shrink").textContent = isLowered ? `Allow ${FULL / MEGABYTE} MB again` : `Lower to ${LOWERED / MEGABYTE} MB`;
}

async function clear() {
  await engine.ask({ type: "clear" }, "cleared");
  $("happened").textContent = "The cache is empty. Reload to see a first visit again.";
}

async function copy() {
  const copied = await navigator.clipboard?.writeText($("code").textContent).then(
    () => true,
    () => false,
  );
  if (!copied) getSelection().selectAllChildren($("code"));
  $("copied").textContent = copied ? "Copied." : "Selected; copy with the keyboard.";
}

const jobs = { measure, damage, kill, race, shrink, clear };
let isBusy = true;

/** One job runs at a time. Buttons keep the focus while they cannot be used. */
function setBusy(busy) {
  isBusy = busy;
  for (const id of Object.keys(jobs)) $(id).setAttribute("aria-disabled", String(busy));
}

for (const [id, job] of Object.entries(jobs)) {
  const result = $(`${id}-result`) ?? $("happened");
  const show = (...lines) => result.replaceChildren(...lines.map((line) => element("p", {}, line)));
  $(id).addEventListener("click", async () => {
    if (isBusy) return;
    setBusy(true);
    delete state[id];
    try {
      await job(show);
      state[id] = "done";
    } catch (error) {
      show(`That did not work: ${error.message}.`);
      state[id] = "failed";
    } finally {
      setBusy(false);
    }
  });
}
setBusy(true);
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (question) search(question);
});
$("reload").addEventListener("click", () => location.reload());
$("copy").addEventListener("click", copy);
$("question").value = questions[0];
showBound();
$("suggestions").replaceChildren(
  ...questions.map((question) => {
    const button = element("button", { type: "button" }, question);
    button.addEventListener("click", () => search(question));
    return button;
  }),
);
