// The real model, by the published transformers.js, through asTransformersCache().

import { mountDemo, requestsForKept } from "../demo-site.mjs";

export const deep = true;
/** The first use builds the demo's site, and fetches packages and weights where they are not there. */
export const timeout = 600_000;

/** What the model card compares, and what comes out. */
const SENTENCES = [
  "That is a happy person",
  "That is a happy dog",
  "That is a very happy person",
  "Today is a sunny day",
];
const SIMILARITIES = [0.6946, 0.9429, 0.2569];
const TOLERANCE = 0.001;

export const cases = {
  "the model is right on WebAssembly, then without a request": async (
    t,
  ) => {
    await mountDemo(t);
    await visit(t, "wasm");
    t.ok(requestsForKept(t) > 0, "the first visit downloads");
    t.server.counts.clear();
    await visit(t, "wasm");
    t.equal(requestsForKept(t), 0, "requests for what the cache holds");
  },

  "the model is right on WebGPU, then without a request": async (t) => {
    await mountDemo(t);
    await visit(t, "webgpu");
    t.server.counts.clear();
    await visit(t, "webgpu");
    t.equal(requestsForKept(t), 0, "requests for what the cache holds");
  },

  "a lost file is fetched alone, and the model is right": async (t) => {
    await mountDemo(t);
    await visit(t, "wasm");
    t.server.counts.clear();
    await visit(t, "wasm", { forget: "tokenizer.json" });
    t.equal(
      t.server.requests("/demo/models/minilm/tokenizer.json") > 0,
      true,
      "what was removed is asked for",
    );
    t.equal(t.server.requests("/demo/models/minilm/onnx/model.onnx"), 0, "what was kept is not");
  },
};

/** A visit in a browser of its own: loads the model through the cache and compares the sentences. */
async function visit(t, device, { forget } = {}) {
  const browser = await t.launch();
  const page = await t.page(browser);
  const found = await page.evaluate(similarities, { device, sentences: SENTENCES, forget });
  await browser.close();
  t.equal(page.problems, []);
  SIMILARITIES.forEach((wanted, index) => {
    t.ok(
      Math.abs(found[index] - wanted) < TOLERANCE,
      `${SENTENCES[index + 1]}: ${found[index]}, not ${wanted}`,
    );
  });
}

/** Runs in the page. */
async function similarities({ device, sentences, forget }) {
  const { open, asTransformersCache } = globalThis.warmstart;
  const site = new URL("/demo/", location.href).href;
  // The runtime that the device needs, in place of the one that transformers.js names.
  const runtimes = `/node_modules/onnxruntime-web/dist/ort.${device}.min.mjs`;
  const map = Object.assign(document.createElement("script"), { type: "importmap" });
  map.textContent = JSON.stringify({ imports: { "onnxruntime-web/webgpu": runtimes, "onnxruntime-common": runtimes } });
  document.head.append(map);
  const { env, pipeline, cos_sim } = await import("/node_modules/@huggingface/transformers/dist/transformers.web.min.js");
  const cache = await open({ name: "model" });
  env.useBrowserCache = false;
  env.useWasmCache = true;
  env.useCustomCache = true;
  env.customCache = asTransformersCache(cache);
  env.allowLocalModels = false;
  env.remoteHost = `${site}models/`;
  env.remotePathTemplate = "{model}/";
  const runtime = (end) => `${site}runtime/${device}/runtime.${end}`;
  env.backends.onnx.wasm.wasmPaths = { mjs: runtime("mjs"), wasm: runtime("wasm") };
  env.backends.onnx.wasm.numThreads = 1;
  if (forget) await env.customCache.delete(`${site}models/minilm/${forget}`);
  const extract = await pipeline("feature-extraction", "minilm", { device, dtype: "fp32" });
  const vectors = (await extract(sentences, { pooling: "mean", normalize: true })).tolist();
  await cache.close();
  return vectors.slice(1).map((vector) => cos_sim(vectors[0], vector));
}
