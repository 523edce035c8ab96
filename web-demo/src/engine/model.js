import { asTransformersCache, watchDevices } from "warmstart";
import { fetchFiles, missing } from "./files.js";

/** Loads the code of transformers.js for a device: half a megabyte, so start early. */
export function transformersFor(device) {
  return device === "webgpu" ? import("@huggingface/transformers") : import("transformers:wasm");
}

/**
 * Starts all-MiniLM-L6-v2 with transformers.js, which reads its files through `cache`; without one, through the cache
 * that it has as it is shipped.
 *
 * @param library what {@link transformersFor} returns for `device`
 * @param unstored files that the cache could not store, as Blobs by address
 * @returns {Promise<{ embed(texts: string[]): Promise<Float32Array>, device: "webgpu" | "wasm", lists: PipelineList[] }>}
 */
export async function startModel({ cache, files, unstored, site, device, library, progress }) {
  // The runtime's own pipelines are recreated too, as soon as it requests its device.
  const watched = cache && device === "webgpu" ? watchDevices(cache, "all-MiniLM-L6-v2") : undefined;
  try {
    const { env, pipeline } = await library;
    if (cache) {
      env.useCustomCache = true;
      env.customCache = withUnstored(asTransformersCache(cache), unstored);
    }
    env.remoteHost = new URL("models/", site).href;
    env.remotePathTemplate = "{model}/";
    const runtime = (end) => new URL(`runtime/${device}/runtime.${end}`, site).href;
    env.backends.onnx.wasm.wasmPaths = { mjs: runtime("mjs"), wasm: runtime("wasm") };
    env.backends.onnx.wasm.numThreads = 1;
    const start = () => pipeline("feature-extraction", "minilm", { device, dtype: "fp32" });
    const extract = await start().catch(async (error) => {
      // A damaged file was removed when it was read, so it is missing now.
      const lost = cache ? (await missing(cache, files)).filter(({ url }) => !unstored.has(url)) : [];
      if (lost.length === 0) throw error;
      for (const [url, body] of await fetchFiles(cache, lost, progress)) unstored.set(url, body);
      return start();
    });
    unstored.clear();
    const embed = async (texts) => (await extract(texts, { pooling: "mean", normalize: true })).data;
    return { embed, device, lists: watched?.lists ?? [] };
  } finally {
    watched?.stop();
  }
}

function withUnstored(cache, unstored) {
  const match = async (key) => (unstored.has(key) ? new Response(unstored.get(key)) : cache.match(key));
  return { ...cache, match };
}
