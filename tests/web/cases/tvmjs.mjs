// The published classes of tvmjs, on which web-llm is built, over the cache.

export const cases = {
  "tvmjs's ArtifactCache runs over asCacheStorage()": async (t) => {
    const { page, url } = await visit(t);
    await page.evaluate(
      async ({ json, shards }) => {
        const cache = await warmstart.open({ name: "tvm" });
        Object.defineProperty(globalThis, "caches", { value: warmstart.asCacheStorage(cache), configurable: true });
        const artifacts = new tvmjs.ArtifactCache("webllm/model");
        kit.equal(await artifacts.hasAllKeys([json]), false);
        kit.equal((await artifacts.fetchWithCache(json, "json")).records.length, 2);
        kit.equal(await artifacts.fetchWithCache(shards[0], "arraybuffer"), kit.bytes(500_000, 1));
        await artifacts.addToCache(shards[1]);
        kit.equal(await artifacts.hasAllKeys([json, ...shards]), true);
        // By the name that CacheStorage gives it, as web-llm's own helpers look.
        kit.equal(await caches.has("webllm/model"), true);
        kit.equal(await tvmjs.hasTensorInCache(new URL(".", json).href, "webllm/model"), true);
        kit.equal(await tvmjs.hasTensorInCache(new URL(".", json).href, "webllm/other"), false);
      },
      url,
    );
    const asked = t.server.requests("/");
    await page.reload();
    await ready(page);
    const before = t.server.requests("/model/");
    await page.evaluate(
      async ({ json, shards }) => {
        const cache = await warmstart.open({ name: "tvm" });
        Object.defineProperty(globalThis, "caches", { value: warmstart.asCacheStorage(cache), configurable: true });
        const artifacts = new tvmjs.ArtifactCache("webllm/model");
        kit.equal(await artifacts.fetchWithCache(shards[0], "arraybuffer"), kit.bytes(500_000, 1));
        kit.equal(await artifacts.fetchWithCache(shards[1], "arraybuffer"), kit.bytes(1_000, 2));
        kit.equal((await artifacts.fetchWithCache(json, "json")).records.length, 2);
        await artifacts.deleteInCache(shards[1]);
        kit.equal(await artifacts.hasAllKeys([shards[1]]), false);
        kit.equal(await artifacts.hasAllKeys([json, shards[0]]), true);
        await tvmjs.deleteTensorCache(new URL(".", json).href, "webllm/model");
        kit.equal(await artifacts.hasAllKeys([shards[0]]), false);
      },
      url,
    );
    t.equal(t.server.requests("/model/"), before, "a second visit asks the server for nothing");
    t.equal(before, 3, "each was asked for once");
    t.ok(asked > 0);
  },

  "tvmjs takes asArtifactCache() as its artifactCache": async (t) => {
    const { page, url } = await visit(t);
    await page.evaluate(
      async ({ json, shards }) => {
        const cache = await warmstart.open({ name: "tvm" });
        const artifactCache = warmstart.asArtifactCache(cache);
        const base = new URL(".", json).href;
        kit.equal(await tvmjs.hasTensorInCache(base, { artifactCache }), false);
        kit.equal((await artifactCache.fetchWithCache(json, "json")).records.length, 2);
        kit.equal(await tvmjs.hasTensorInCache(base, { artifactCache }), false, "its shards are not there");
        await Promise.all(shards.map((shard) => artifactCache.addToCache(shard, "arraybuffer")));
        kit.equal(await tvmjs.hasTensorInCache(base, { artifactCache }), true);
        kit.equal(await artifactCache.fetchWithCache(shards[0], "arraybuffer"), kit.bytes(500_000, 1));
        await tvmjs.deleteTensorCache(base, { artifactCache });
        kit.equal(await tvmjs.hasTensorInCache(base, { artifactCache }), false);
        kit.equal(await artifactCache.hasAllKeys(shards), false);
      },
      url,
    );
    t.equal(t.server.requests("/model/"), 3, "each was asked for once");
  },

  "a server's error rejects in tvmjs and is not stored": async (t) => {
    const { page } = await visit(t);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "tvm" });
      const missing = new URL("/model/missing.bin", location.href).href;
      await kit.rejects(warmstart.asArtifactCache(cache).fetchWithCache(missing, "arraybuffer"));
      Object.defineProperty(globalThis, "caches", { value: warmstart.asCacheStorage(cache), configurable: true });
      const artifacts = new tvmjs.ArtifactCache("webllm/model");
      await kit.rejects(artifacts.fetchWithCache(missing, "arraybuffer"));
      kit.equal(await artifacts.hasAllKeys([missing]), false);
      kit.equal(await warmstart.asArtifactCache(cache).hasAllKeys([missing]), false);
    });
  },
};

async function visit(t) {
  const records = ["params_shard_0.bin", "params_shard_1.bin"].map((dataPath) => ({ dataPath, records: [] }));
  const { bytes } = await import("../bytes.js");
  const files = {
    "/model/tensor-cache.json": ["application/json", JSON.stringify({ metadata: {}, records })],
    "/model/params_shard_0.bin": ["application/octet-stream", bytes(500_000, 1)],
    "/model/params_shard_1.bin": ["application/octet-stream", bytes(1_000, 2)],
  };
  t.server.mount("/model/", (_, response, { pathname }) => {
    const [type, body] = files[pathname] ?? [];
    if (body === undefined) return void response.writeHead(404).end("not here");
    response.writeHead(200, { "content-type": type, "content-length": body.length, "cache-control": "no-store" });
    response.end(body);
  });
  const page = await t.page(await t.launch());
  await ready(page);
  const shards = records.map(({ dataPath }) => t.server.url(`/model/${dataPath}`));
  return { page, url: { json: t.server.url("/model/tensor-cache.json"), shards } };
}

async function ready(page) {
  await page.waitForFunction(() => globalThis.warmstart);
  await page.addScriptTag({ url: "/node_modules/@mlc-ai/web-runtime/lib/index.js" });
}
