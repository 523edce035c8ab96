// The trials, which show what timings cannot. Each runs in a worker of its own, which the page may end at any time.

import { download, key, open } from "warmstart";
import { questions } from "../passages.js";
import { damageDefaultCache, damageWarmstart } from "./damage.js";
import { DEFAULT_CACHE, manifest } from "./files.js";
import { startModel, transformersFor } from "./model.js";

const CACHE = "warmstart-demo";
/** A cache of its own for what is stored by trials alone. */
const SCRATCH = "warmstart-demo-trials";
/** The share of a file after which the connection stalls. */
const STALLED = 0.8;

/**
 * The trials, by name. `files` is the manifest; what a trial returns is sent to the page, as is what it tells.
 */
export const trials = {
  /** Flips a byte of the model, as it is stored, in both caches. */
  async damage({ files }) {
    const { url } = files.find(({ url }) => url.endsWith("model.onnx"));
    const change = await damageDefaultCache(url);
    await damageWarmstart(CACHE);
    return change;
  },

  /** Removes the damaged model from the cache of transformers.js, which keeps it otherwise. */
  async mend({ files }) {
    const { url } = files.find(({ url }) => url.endsWith("model.onnx"));
    await (await caches.open(DEFAULT_CACHE)).delete(url);
  },

  /** Starts the model from what is stored, and embeds a question. */
  async probe({ files, keeps, site, device, maxBytes }) {
    const cache = keeps === "warmstart" ? await open({ name: CACHE, maxBytes }) : undefined;
    const { url } = files.find(({ url }) => url.endsWith("model.onnx"));
    let reason;
    cache?.events.on("miss", (miss) => miss.text === url && (reason ??= miss.reason));
    let fetched = 0;
    const library = transformersFor(device);
    const progress = (_, loaded) => (fetched = loaded ?? fetched);
    const model = await startModel({ cache, files, unstored: new Map(), site, device, library, progress });
    const vector = Array.from(await model.embed(questions.slice(0, 1)));
    await cache?.close();
    return { vector, reason, fetched };
  },

  /** Downloads the runtime. With `stalls`, the connection stalls before the end, and the page ends this worker. */
  async download({ files, stalls, tell }) {
    const { url, size, integrity } = files.find(({ url }) => url.endsWith("runtime.wasm"));
    const cache = await open({ name: SCRATCH });
    if (stalls) {
      await cache.clear();
      stall(size * STALLED);
    }
    // A part that is stored survives this worker.
    let stored = false;
    cache.events.on("stored", ({ text }) => (stored ||= text?.startsWith("warmstart.part ")));
    let first;
    let last = 0;
    const report = () => tell({ type: "progress", loaded: last, total: size, stored });
    const timer = setInterval(report, 100);
    await download(cache, { url, size, integrity }, {
      as: "blob",
      onProgress: ({ loaded }) => {
        first ??= loaded;
        last = loaded;
      },
    });
    clearInterval(timer);
    await cache.clear();
    await cache.close();
    return { resumedAt: first, total: size };
  },

  /** Builds a value that another tab wants at the same time: the runtime, compressed. */
  async race({ files, run }) {
    const [cache, source] = await Promise.all([open({ name: SCRATCH }), open({ name: CACHE })]);
    const { url } = files.find(({ url }) => url.endsWith("runtime.wasm"));
    const blob = (await source.get(url, "blob")) ?? (await (await fetch(url)).blob());
    await meet(run);
    const begun = performance.now();
    let built = false;
    const value = await cache.getOrCreate(
      key("demo.compressed", 1, { run }),
      () => {
        built = true;
        return blob.stream().pipeThrough(new CompressionStream("gzip"));
      },
      { as: "blob" },
    );
    const ms = performance.now() - begun;
    await Promise.all([cache.close(), source.close()]);
    return { built, ms, size: value.size };
  },
};

/** Makes every response of this worker stall after `bytes`. */
function stall(bytes) {
  const original = self.fetch;
  self.fetch = async (...request) => {
    const response = await original(...request);
    let passed = 0;
    const stalling = new TransformStream({
      async transform(chunk, controller) {
        controller.enqueue(chunk);
        passed += chunk.byteLength;
        if (passed >= bytes) await new Promise(() => undefined);
      },
    });
    return new Response(response.body.pipeThrough(stalling), response);
  };
}

/** Waits until the other tab is at the same point. */
function meet(run) {
  const channel = new BroadcastChannel(`${SCRATCH} ${run}`);
  return new Promise((resolve) => {
    channel.onmessage = ({ data }) => {
      // The first one that comes is not heard, and hears the second one, which it answers.
      if (data === "here") channel.postMessage("both");
      resolve();
    };
    channel.postMessage("here");
  });
}
