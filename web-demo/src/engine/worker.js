// Runs visits and answers questions, in a worker, so that the page never freezes.
//
// The page sends { type: "visit" | "fill" | "ask" | "near" | "clear" | "resize" | "trial", ... } and receives { type: "gpu" |
// "visit" | "phase" | "kept" | "ready" | "answer" | "entries" | "filled" | "near" | "cleared" | "resized" | "progress" | "done" |
// "warning" | "failed", ... }.

import { open } from "warmstart";
import { questions } from "../passages.js";
import { Answers } from "./answers.js";
import { embeddings } from "./embeddings.js";
import { Entries } from "./entries.js";
import { fetchFiles, fillDefaultCache, manifest, missing } from "./files.js";
import { findGpu } from "./gpu.js";
import { startModel, transformersFor } from "./model.js";
import { Neighbours, openPipelines } from "./neighbours.js";
import { Phases } from "./phases.js";
import { unkept } from "./results.js";
import { trials } from "./trials.js";

/** The visit, and the cache, which serves while the model is still loading. */
const session = Promise.withResolvers();
const opened = Promise.withResolvers();
for (const { promise } of [session, opened]) promise.catch(() => undefined);

const handlers = {
  async visit(message) {
    try {
      session.resolve(await visit(message));
    } catch (error) {
      for (const { reject } of [session, opened]) reject(error);
      throw error;
    }
  },
  async fill() {
    const { cache, files } = await session.promise;
    const absent = await missing(cache, files);
    if (absent.length === 0) await fillDefaultCache(cache, files);
    tell({ type: "filled", absent: absent.length });
  },
  async ask({ id, question }) {
    const { answers } = await session.promise;
    tell({ type: "answer", id, question, ...(await answers.to(question)) });
  },
  async near({ vector }) {
    const { answers } = await session.promise;
    tell({ type: "near", hits: await answers.near(vector) });
  },
  async clear() {
    const { cache, entries, lists } = await opened.promise;
    // A list of pipelines stores itself a moment after it changes, which must not be after the clearing.
    await Promise.all(lists.map((list) => list.save()));
    await cache.clear();
    await entries.tellNow("cleared");
    tell({ type: "cleared" });
  },
  async resize({ maxBytes }) {
    const { cache, entries } = await opened.promise;
    await cache.resize({ maxBytes });
    await entries.tellNow();
    tell({ type: "resized" });
  },
  async trial({ name, site, device, ...options }) {
    const files = await manifest(site, device);
    tell({ type: "done", ...(await trials[name]({ files, site, device, tell, ...options })) });
  },
};

self.onmessage = ({ data }) => {
  Promise.resolve(handlers[data.type](data)).catch((error) => {
    tell({ type: "failed", id: data.id, message: error instanceof Error ? error.message : String(error) });
  });
};

/**
 * From nothing to the first answer. With `keeps` "warmstart", files and results come out of a cache of warmstart; with
 * "default", files come out of the cache that transformers.js has as it is shipped, and results are computed.
 */
async function visit({ keeps, site, maxBytes, device: wanted, origin }) {
  const phases = new Phases(origin, tell);
  const looking = findGpu(wanted);
  const onWarning = ({ message }) => tell({ type: "warning", message });
  const cache = keeps === "warmstart" ? await open({ name: "warmstart-demo", maxBytes, onWarning }) : undefined;
  const results = cache ?? unkept;
  const gpu = await looking;
  let { model: device } = gpu;
  tell({ type: "gpu", ...gpu.shown });
  const files = await manifest(site, device);
  const lists = [];
  if (cache) opened.resolve({ cache, entries: new Entries(cache, tell), lists });
  // Long work without dependencies begins now: loading code, and recreating the pipelines of an earlier visit.
  const library = transformersFor(device);
  library.catch(() => undefined);
  const listing = openPipelines(cache, gpu.device);
  listing.then((list) => list && lists.push(list), () => undefined);
  const [question] = questions;
  const kept = cache && (await Answers.kept(cache, files, question));
  if (kept) tell({ type: "kept", question, ...kept, ms: phases.now() });

  let isFirst;
  const unstored = await phases.run("download", async (progress) => {
    const absent = await missing(cache, files);
    isFirst = absent.length > 0;
    tell({ type: "visit", isFirst });
    return isFirst && cache ? fetchFiles(cache, absent, progress) : new Map();
  });
  const model = await phases.run("start", async (progress) => {
    const start = (device, library) => startModel({ cache, files, unstored, site, device, library, progress });
    return start(device, library).catch((error) => {
      // A driver may promise WebGPU and fail.
      if (device === "wasm") throw error;
      return start("wasm", transformersFor("wasm"));
    });
  });
  lists.push(...model.lists);
  const vectors = await phases.run("embed", (progress) => embeddings(results, model, files, progress));
  const neighbours = await phases.run("tune", async (progress) =>
    Neighbours.create({ results, list: await listing, device: gpu.device, vectors, progress }),
  );
  const answers = new Answers({ results, files, model, neighbours });
  // Computed even if the answer is kept, so that all visits are measured doing the same work.
  const first = await phases.run("answer", () => answers.compute(question));
  tell({ type: "ready", isFirst, device: model.device, search: neighbours.shown, phases: phases.times });
  tell({ type: "answer", question, ...first, ms: phases.times.answer });
  if (cache) {
    await answers.keep(question, first);
    await (await opened.promise).entries.tellNow();
  }
  return { cache, files, answers };
}

function tell(message) {
  self.postMessage(message);
}
