// All computation, in a worker, so that the page never freezes.
//
// The page sends { type: "start" | "ask" | "clear" | "resize" | "list", ... } and receives { type: "phase" |
// "remembered" | "ready" | "answer" | "map" | "holdings" | "warning" | "failed", ... }.

import { open } from "../warmstart/dist/index.js";
import { Answers } from "./answers.js";
import { bring, manifest } from "./files.js";
import { findGpu } from "./gpu.js";
import { Holdings } from "./holdings.js";
import { loadModel, transformersFor } from "./model.js";
import { Neighbours, openKernels } from "./neighbours.js";
import { passages, questions } from "./passages.js";
import { Phases } from "./phases.js";
import { flatMap } from "./projection.js";
import { passageVectors } from "./vectors.js";

/** The work that began when the page sent "start". */
let session;

const handlers = {
  start(message) {
    session = start(message);
    session.catch((error) => tell({ type: "failed", message: describe(error) }));
  },
  async ask({ id, question }) {
    const { answers } = await session;
    tell({ type: "answer", id, question, ...(await answers.to(question)) });
  },
  async clear() {
    const { cache, holdings, lists } = await opened;
    // A list of pipelines stores itself a moment after it changes, which must not be after the clearing.
    await Promise.all(lists.map((list) => list.save()));
    await cache.clear();
    await holdings.tellNow("was cleared by you");
    tell({ type: "cleared" });
  },
  async resize({ maxBytes }) {
    const { cache, holdings } = await opened;
    await cache.resize({ maxBytes });
    await holdings.tellNow("went to make room");
    tell({ type: "resized", maxBytes });
  },
  async list() {
    await (await opened).holdings.tellNow();
  },
};

self.onmessage = ({ data }) => {
  Promise.resolve(handlers[data.type](data)).catch((error) => {
    tell({ type: "failed", id: data.id, message: describe(error) });
  });
};

let resolveOpened;
/** The cache and the list of its entries, which work while the model is still loading. */
const opened = new Promise((resolve) => (resolveOpened = resolve));

/** From an empty tab to the first answer. */
async function start({ maxBytes, device, origin }) {
  const phases = new Phases(origin, tell);
  const onWarning = (warning) => tell({ type: "warning", message: warning.message });
  const looking = findGpu(device);
  const listing = manifest();
  const cache = await open({ name: "warmstart-demo", maxBytes, onWarning });
  const everything = await listing;
  await remember(cache, everything, phases);
  const gpu = await looking;
  const files = everything.filter((file) => file.device === undefined || file.device === gpu.model);
  const holdings = new Holdings(cache, files, tell);
  const lists = [];
  resolveOpened({ cache, holdings, lists });
  tell({ type: "gpu", ...gpu.shown });
  // Long work without dependencies begins now: fetching code, and recreating the pipelines of an earlier
  // visit.
  const library = transformersFor(gpu.model);
  library.catch(() => undefined);
  const kernels = await openKernels(cache, gpu.device);
  if (kernels) lists.push(kernels.list);

  const cold = (await Promise.all(files.map(({ url }) => cache.has(url)))).includes(false);
  tell({ type: "visit", cold });
  const held = await phases.run("download", (progress) => bring(cache, files, progress));
  const { model, vectors } = await phases.run("prepare", async (progress) => {
    const model = await loadModel(cache, held, gpu.model, await library, progress);
    lists.push(...model.lists);
    return { model, vectors: await passageVectors(cache, model, files, progress) };
  });
  const neighbours = await phases.run("compile", (progress) =>
    Neighbours.create({ cache, kernels, vectors, count: passages.length, progress }),
  );
  const answers = new Answers({ cache, files, model, neighbours });
  const question = questions[0];
  // Computed even if the answer is cached, so that both visits are measured doing the same work.
  const first = await phases.run("answer", () => answers.compute(question));
  const shown = { backend: cache.backend, device: model.device, search: neighbours.shown };
  tell({ type: "ready", cold, ...shown, phases: phases.times });
  tell({ type: "answer", question, ...first });
  await answers.keep(question, first);

  const { places, project } = await flatMap(cache, vectors, passages.length, files);
  answers.project = project;
  tell({ type: "map", places, at: project(first.vector) });
  await holdings.tellNow();
  return { answers };
}

/** Shows the answer of an earlier visit before anything else is ready. */
async function remember(cache, files, phases) {
  const kept = await Answers.kept(cache, files, questions[0]);
  if (kept) tell({ type: "remembered", question: questions[0], ...kept, ms: phases.now() });
}

function tell(message) {
  self.postMessage(message);
}

function describe(error) {
  return error instanceof Error ? error.message : String(error);
}
