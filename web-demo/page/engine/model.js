import { asTransformersCache, watchDevices } from "../warmstart/dist/index.js";
import { SITE } from "./files.js";

/** Loads transformers.js with the runtime for a device: half a megabyte, so start early. */
export function transformersFor(device) {
  return import(`../vendor/${device}/transformers.mjs`);
}

/**
 * Loads all-MiniLM-L6-v2 with transformers.js, which reads all of its files through the cache.
 *
 * @param library what {@link transformersFor} gives for `device`
 * @param held files that the cache could not keep, as Blobs by address
 * @returns {Promise<{ embed(texts: string[]): Promise<Float32Array>, device: "webgpu" | "wasm", lists: PipelineList[] }>}
 */
export async function loadModel(cache, held, device, library, progress) {
  progress("Starting the model");
  // The runtime's own pipelines are recreated too, as soon as it requests its device.
  const watched = device === "webgpu" ? watchDevices(cache, "all-MiniLM-L6-v2") : undefined;
  try {
    const extract = await start(cache, held, device, library);
    held.clear();
    return {
      embed: async (texts) => (await extract(texts, { pooling: "mean", normalize: true })).data,
      device,
      lists: watched?.lists ?? [],
    };
  } catch (error) {
    if (device === "wasm") throw error;
    // The driver promises more than it does: fall back.
    return loadModel(cache, held, "wasm", await transformersFor("wasm"), progress);
  } finally {
    watched?.stop();
  }
}

function start(cache, held, device, { env, pipeline }) {
  const kept = asTransformersCache(cache);
  env.useBrowserCache = false;
  env.useCustomCache = true;
  env.useWasmCache = true;
  env.customCache = {
    ...kept,
    match: async (key) => (held.has(key) ? new Response(held.get(key)) : kept.match(key)),
  };
  env.allowLocalModels = false;
  env.remoteHost = new URL("models/", SITE).href;
  env.remotePathTemplate = "{model}/";
  const runtime = (end) => new URL(`vendor/${device}/runtime.${end}`, SITE).href;
  env.backends.onnx.wasm.wasmPaths = { mjs: runtime("mjs"), wasm: runtime("wasm") };
  env.backends.onnx.wasm.numThreads = 1;
  return pipeline("feature-extraction", "minilm", { device, dtype: "fp32" });
}
