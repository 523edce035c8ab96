import { env, pipeline } from "../vendor/transformers.mjs";
import { asTransformersCache, watchDevices } from "../warmstart/dist/index.js";
import { SITE } from "./files.js";

/**
 * Loads all-MiniLM-L6-v2 with transformers.js, which reads all of its files through the cache.
 *
 * @param held files that the cache could not keep, as Blobs by address
 * @returns {Promise<{ embed(texts: string[]): Promise<Float32Array>, shown: object }>}
 */
export async function loadModel(cache, held, gpu, progress) {
  const kept = asTransformersCache(cache);
  env.useBrowserCache = false;
  env.useCustomCache = true;
  env.useWasmCache = true;
  env.customCache = {
    ...kept,
    put: (key, response, onProgress) => kept.put(key, response, onProgress),
    match: async (key) => (held.has(key) ? new Response(held.get(key)) : kept.match(key)),
  };
  env.allowLocalModels = false;
  env.remoteHost = new URL("models/", SITE).href;
  env.remotePathTemplate = "{model}/";
  const runtime = (end) => new URL(`vendor/ort-wasm-simd-threaded.asyncify.${end}`, SITE).href;
  env.backends.onnx.wasm.wasmPaths = { mjs: runtime("mjs"), wasm: runtime("wasm") };
  env.backends.onnx.wasm.numThreads = 1;

  // The runtime's own shaders are created again too, as soon as it asks for its device.
  const watched = gpu.model === "webgpu" ? watchDevices(cache, "all-MiniLM-L6-v2") : undefined;
  const load = (device) => pipeline("feature-extraction", "minilm", { device, dtype: "fp32" });
  progress("starting the runtime");
  let device = gpu.model;
  let extract;
  try {
    extract = await load(device);
  } catch (error) {
    if (device === "wasm") throw error;
    device = "wasm";
    extract = await load(device);
  }
  watched?.stop();
  held.clear();
  const embed = async (texts) => (await extract(texts, { pooling: "mean", normalize: true })).data;
  return { embed, device, shown: { device } };
}
