// The page: shows results, and sends requests to the worker.

import { passages, questions } from "./engine/passages.js";
import { $, element } from "./ui/dom.js";
import { Holdings } from "./ui/holdings.js";
import { PassageMap } from "./ui/map.js";
import { Results } from "./ui/results.js";
import { load, save } from "./ui/stored.js";
import { Visits } from "./ui/visits.js";

const MEGABYTE = 1e6;
const FULL = 400 * MEGABYTE;
const SHRUNK = 64 * MEGABYTE;

const worker = new Worker(new URL("engine/worker.js", import.meta.url), { type: "module" });
const ask = (message) => worker.postMessage(message);
const maxBytes = load("maxBytes") ?? FULL;
// ?device=wasm or webgpu chooses where the model runs; with ?device=none the kernels do not use the graphics
// processor either.
const device = new URL(location.href).searchParams.get("device") ?? undefined;
ask({ type: "start", origin: performance.timeOrigin, maxBytes, device });

const results = new Results($("results"), $("told"), $("way"));
const map = new PassageMap($("map"), passages);
const visits = new Visits($("bars"), $("headline"));
const holdings = new Holdings($("holdings"), $("usage"));
let ready = false;
let asked = 0;
/** The question that was asked before the model was ready. */
let waiting;

const handlers = {
  gpu({ available, name, software }) {
    const kind = software ? `${name} (software)` : name;
    $("machine").textContent = available ? `WebGPU: ${kind}.` : `No WebGPU: ${name}.`;
  },
  visit: ({ cold }) => visits.begin(cold),
  phase(message) {
    visits.phase(message);
    if (message.state === "running") results.coming(message);
  },
  remembered(answer) {
    if (waiting === undefined) results.remembered(answer);
  },
  ready(message) {
    ready = true;
    results.ready();
    visits.finish(message);
    describeMachine(message);
    document.documentElement.dataset.state = "ready";
    document.documentElement.dataset.visit = message.cold ? "first" : "second";
    document.documentElement.dataset.firstAnswer = Math.round(message.phases.total);
    if (waiting !== undefined) search(waiting);
  },
  answer(answer) {
    if (answer.id !== undefined ? answer.id !== asked : waiting !== undefined) return;
    results.show(answer);
    map.point(answer);
    document.documentElement.dataset.answered = answer.question;
  },
  map({ places, at }) {
    map.draw(places);
    if (asked === 0) map.point({ at });
  },
  holdings: (message) => holdings.show(message, load("maxBytes") ?? FULL),
  cleared() {
    visits.forget();
    $("happened").textContent = "The cache is empty. Reload to see a first visit again.";
  },
  resized: ({ maxBytes }) => showLimit(maxBytes, true),
  warning: ({ message }) => ($("happened").textContent = message),
  failed({ id, message }) {
    results.failed(message);
    if (id === undefined && !ready) document.documentElement.dataset.state = "failed";
  },
};

worker.onmessage = ({ data }) => handlers[data.type]?.(data);
worker.onerror = ({ message }) => handlers.failed({ message: message ?? "The worker could not be loaded." });

function search(question) {
  $("question").value = question;
  if (!ready) {
    waiting = question;
    return results.waits(question);
  }
  waiting = undefined;
  results.busy();
  ask({ type: "ask", id: ++asked, question });
}

function describeMachine({ device, search }) {
  const runs = device === "webgpu" ? "The model runs on WebGPU." : "The model runs on WebAssembly.";
  const kernel =
    search.where === "WebGPU"
      ? `Kernel “${search.name}”, ${search.size} threads, won here with ${search.us.toFixed(0)} µs a search.`
      : `Neighbours are found in JavaScript: ${search.why}.`;
  $("machine").append(` ${runs} ${kernel}`);
}

function showLimit(bytes, say) {
  const shrunk = bytes <= SHRUNK;
  save("maxBytes", bytes);
  $("shrink").setAttribute("aria-pressed", String(shrunk));
  $("shrink").textContent = shrunk
    ? `Allow ${FULL / MEGABYTE} MB again`
    : `Shrink to ${SHRUNK / MEGABYTE} MB`;
  if (!say) return;
  $("happened").textContent = shrunk
    ? "The least recently used entries went first, and the model is too large to stay. This tab keeps working."
    : "There is room for everything again. Evicted files return on the next visit.";
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (question) search(question);
});
$("reload").addEventListener("click", () => location.reload());
$("tab").addEventListener("click", () => window.open(location.href, "_blank", "noopener"));
$("clear").addEventListener("click", () => ask({ type: "clear" }));
$("shrink").addEventListener("click", () => {
  ask({ type: "resize", maxBytes: $("shrink").getAttribute("aria-pressed") === "true" ? FULL : SHRUNK });
});

$("question").value = questions[0];
showLimit(maxBytes, false);
$("suggestions").replaceChildren(
  ...questions.map((question) => {
    const button = element("button", { type: "button" }, question);
    button.addEventListener("click", () => search(question));
    return button;
  }),
);
