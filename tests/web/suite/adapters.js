// The adapters for transformers.js, tvmjs and `caches`.

const network = globalThis.fetch.bind(globalThis);

const file = (t, options) =>
  t.url(`/faults/bytes?${new URLSearchParams({ size: 100_000, seed: 7, id: crypto.randomUUID(), ...options })}`);

/** How often the network was asked. */
function counted(t, answer = network) {
  const counts = { requests: 0 };
  globalThis.fetch = (...given) => ((counts.requests += 1), answer(new Request(...given)));
  t.after(() => (globalThis.fetch = network));
  return counts;
}

const page = () => new Response("<!doctype html>", { headers: { "content-type": "text/html" } });
const bytesOf = async (response) => new Uint8Array(await response.arrayBuffer());

export const tests = {
  "transformers.js: a hit has its headers, a miss is undefined": async (t) => {
    const cache = await t.open();
    const adapter = t.warmstart.asTransformersCache(cache);
    const url = t.url("/models/a/config.json");
    t.equal(await adapter.match(url), undefined);
    const headers = { "content-type": "application/json", "content-length": "12" };
    await adapter.put(url, new Response('{"layers":6}', { headers }));
    const found = await adapter.match(url);
    t.ok(found instanceof Response && found.status === 200);
    t.equal([found.headers.get("content-type"), found.headers.get("content-length")], ["application/json", "12"]);
    t.equal(await found.json(), { layers: 6 });
    t.equal((await (await adapter.match("/models/a/config.json")).json()).layers, 6, "a relative address is the same");
    t.equal([await adapter.delete(url), await adapter.delete(url)], [true, false]);
    t.equal(await adapter.match(url), undefined);
  },

  "transformers.js: match does not read a large file": async (t) => {
    const cache = await t.open();
    const adapter = t.warmstart.asTransformersCache(cache);
    const value = t.bytes(3_000_000);
    await adapter.put("https://example.org/model.onnx", new Response(value));
    let read = 0;
    for (const name of ["arrayBuffer", "stream", "text"]) {
      const original = Blob.prototype[name];
      Blob.prototype[name] = function (...given) {
        // The store of the test before may still read a few bytes of its own.
        if (this.size > 1000) read += this.size;
        return original.apply(this, given);
      };
      t.after(() => (Blob.prototype[name] = original));
    }
    const found = [];
    for (let tries = 0; tries < 3; tries += 1) found.push(await adapter.match("https://example.org/model.onnx"));
    t.equal(read, 0, "bytes that were read");
    t.equal(found[0].headers.get("content-length"), "3000000");
    t.equal(await bytesOf(found[2]), value);
    t.ok(read >= 3_000_000, "the body is read when it is asked for");
  },

  "transformers.js: three matches and one read are one use": async (t) => {
    const cache = await t.open();
    const adapter = t.warmstart.asTransformersCache(cache);
    const heard = [];
    cache.events.on("hit", ({ size }) => heard.push(size));
    for (const size of [2000, 200_000]) {
      const { hits, bytesRead } = await cache.stats();
      await adapter.put("https://example.org/a", new Response(t.bytes(size)));
      for (let tries = 0; tries < 2; tries += 1) t.ok(await adapter.match("https://example.org/a"));
      t.equal((await cache.stats()).hits, hits, "nothing was read");
      t.equal(await bytesOf(await adapter.match("https://example.org/a")), t.bytes(size));
      const after = await cache.stats();
      t.equal([after.hits - hits, after.bytesRead - bytesRead], [1, size]);
    }
    t.equal(heard, [2000, 200_000]);
  },

  "transformers.js: HTML pages and errors are not stored": async (t) => {
    const cache = await t.open();
    const adapter = t.warmstart.asTransformersCache(cache);
    await t.rejects(adapter.put("/models/a/tokenizer.json", page()), "unexpected_html");
    await t.rejects(adapter.put("/models/a/tokenizer.json", new Response("no", { status: 500 })), "http_error");
    t.equal((await cache.entries()).length, 0);
  },

  "transformers.js: progress is reported in percent": async (t) => {
    const cache = await t.open();
    const adapter = t.warmstart.asTransformersCache(cache);
    const told = [];
    const response = await network(file(t, { slow: 200_000 }));
    await adapter.put("https://example.org/a", response, (data) => told.push(data));
    t.ok(told.length > 1 && told[0].progress < 100, `${told.length} calls`);
    t.equal(told.at(-1), { progress: 100, loaded: 100_000, total: 100_000 });
  },

  "transformers.js: what was downloaded ahead of time is found": async (t) => {
    const cache = await t.open();
    const url = file(t);
    await t.warmstart.download(cache, url);
    const found = await t.warmstart.asTransformersCache(cache).match(url);
    t.equal(await bytesOf(found), t.bytes(100_000, 7));
  },

  "caches: requests may be text, URLs and Requests": async (t) => {
    const caches = t.warmstart.asCacheStorage(await t.open());
    const cache = await caches.open("v1");
    const url = t.url("/a?b=1");
    t.equal(await cache.match(url), undefined);
    await cache.put(new Request(`${url}#part`), new Response("one", { headers: { "content-type": "text/plain" } }));
    await t.sleep(5);
    await cache.put("/c", new Response("two"));
    for (const request of [url, new URL(url), new Request(url), "/a?b=1"]) {
      const found = await cache.match(request);
      t.equal([await found.text(), found.url, found.headers.get("content-type")], ["one", url, "text/plain"]);
    }
    const keys = await cache.keys();
    t.ok(keys.every((key) => key instanceof Request));
    t.equal(keys.map((key) => key.url), [url, t.url("/c")]);
    t.equal((await cache.keys("/c")).length, 1);
    t.equal([await cache.delete(new URL(url)), await cache.delete(url)], [true, false]);
    t.equal((await cache.keys()).length, 1);
  },

  "caches: the query counts, and ignoreSearch is a TypeError": async (t) => {
    const caches = t.warmstart.asCacheStorage(await t.open());
    const cache = await caches.open("v1");
    await cache.put("/a?v=1", new Response("one"));
    t.equal(await cache.match("/a"), undefined);
    const head = new Request("/a?v=1", { method: "HEAD" });
    t.equal([await cache.match(head), await cache.delete(head)], [undefined, false]);
    for (const options of [{ ignoreSearch: true }, { ignoreMethod: true }]) {
      for (const call of ["match", "delete", "keys"]) await t.rejects(cache[call]("/a?v=1", options), "TypeError");
      await t.rejects(caches.match("/a?v=1", options), "TypeError");
    }
    t.equal((await cache.keys()).length, 1, "nothing was removed");
  },

  "caches: what the standard forbids is a TypeError": async (t) => {
    const store = await t.open();
    const cache = await t.warmstart.asCacheStorage(store).open("v1");
    const read = new Response("a");
    await read.text();
    const wrong = [
      [new Request("/a", { method: "POST", body: "x" }), new Response("a")],
      [new Request("/a", { method: "HEAD" }), new Response("a")],
      ["data:text/plain,a", new Response("a")],
      ["/a", new Response("a", { status: 206 })],
      ["/a", new Response("a", { headers: { vary: "accept, *" } })],
      ["/a", read],
    ];
    for (const [request, response] of wrong) await t.rejects(cache.put(request, response), "TypeError");
    t.equal((await cache.keys()).length, 0);
  },

  "caches: add fetches and stores, and nothing that is not ok": async (t) => {
    const store = await t.open();
    const cache = await t.warmstart.asCacheStorage(store).open("v1");
    const url = file(t, { type: "application/wasm" });
    await cache.add(new Request(url));
    const found = await cache.match(url);
    t.equal(found.headers.get("content-type"), "application/wasm");
    t.equal(await bytesOf(found), t.bytes(100_000, 7));
    const missing = file(t, { status: 404 });
    await t.rejects(cache.add(missing), "TypeError");
    t.equal((await cache.keys()).length, 1);
    counted(t, page);
    await t.rejects(cache.add("/models/params.json"), "TypeError");
    await cache.add("/about");
    t.equal(await (await cache.match("/about")).text(), "<!doctype html>", "a page under a page's name");
    await t.rejects(cache.add(new Request("/a", { signal: AbortSignal.abort() })), "AbortError");
  },

  "caches: put stores neither errors nor HTML pages": async (t) => {
    const store = await t.open();
    const cache = await t.warmstart.asCacheStorage(store).open("v1");
    await cache.put("/a.bin", new Response("no", { status: 404 }));
    await cache.put("/a.bin", page());
    await cache.put("/a.bin", Response.error());
    t.equal((await cache.keys()).length, 0);
    await cache.put("/", page());
    t.equal((await cache.keys()).length, 1);
  },

  "caches: named caches are separate": async (t) => {
    const store = await t.open();
    const caches = t.warmstart.asCacheStorage(store);
    const [one, other] = await Promise.all([caches.open("webllm/model"), caches.open("webllm")]);
    await one.put("/a", new Response("one"));
    await t.sleep(5);
    await other.put("/a", new Response("other"));
    t.equal(await (await one.match("/a")).text(), "one");
    t.equal(await (await caches.match("/a")).text(), "one", "the first that was made");
    t.equal(await (await caches.match("/a", { cacheName: "webllm" })).text(), "other");
    t.equal(await caches.match("/a", { cacheName: "none" }), undefined);
    t.equal(await caches.keys(), ["webllm/model", "webllm"]);
    t.equal([await caches.has("webllm"), await caches.has("none")], [true, false]);
    t.equal([await caches.delete("webllm"), await caches.delete("webllm")], [true, false]);
    t.equal([await caches.keys(), await other.match("/a")], [["webllm/model"], undefined]);
    t.equal(await (await one.match("/a")).text(), "one", "the other one is left alone");
    const again = t.warmstart.asCacheStorage(store);
    t.equal(await again.keys(), ["webllm/model"], "from another page");
  },

  "caches: a cache is listed if it has entries of its own": async (t) => {
    const store = await t.open();
    const caches = t.warmstart.asCacheStorage(store);
    await caches.open("empty");
    t.equal([await caches.keys(), await caches.delete("empty")], [[], false]);
    await (await caches.open("full")).put("/a", new Response("a"));
    for (const own of ["my own", "warmstart.cache ", "warmstart.cache /a"]) await store.put(own, "entry");
    t.equal(await caches.keys(), ["full"]);
    t.equal(await caches.delete("full"), true);
    t.equal(await store.get("my own", "text"), "entry");
  },

  "tvmjs: a file is fetched once, and returned in each format": async (t) => {
    const artifacts = t.warmstart.asArtifactCache(await t.open());
    const url = file(t);
    const counts = counted(t);
    await artifacts.addToCache(url, "arraybuffer");
    await artifacts.addToCache(url, "arraybuffer");
    const buffer = await artifacts.fetchWithCache(url, "ArrayBuffer");
    t.ok(buffer instanceof ArrayBuffer);
    t.equal(buffer, t.bytes(100_000, 7).buffer);
    t.ok((await artifacts.fetchWithCache(url)) instanceof Response);
    t.equal(counts.requests, 1);
    counted(t, () => new Response('{"records":[]}'));
    t.equal(await artifacts.fetchWithCache("/tensor-cache.json", "json"), { records: [] });
  },

  "tvmjs: hasAllKeys reads no value, and deleteInCache forgets": async (t) => {
    const cache = await t.open();
    const artifacts = t.warmstart.asArtifactCache(cache);
    const urls = [1, 2, 3].map((seed) => file(t, { seed }));
    for (const url of urls) await artifacts.addToCache(url, "arraybuffer");
    const { hits, bytesRead } = await cache.stats();
    t.equal([await artifacts.hasAllKeys(urls), await artifacts.hasAllKeys([...urls, "/other"])], [true, false]);
    const after = await cache.stats();
    t.equal([after.hits - hits, after.bytesRead - bytesRead], [0, 0]);
    t.equal(await artifacts.deleteInCache(urls[0]), undefined);
    t.equal(await artifacts.hasAllKeys(urls), false);
    t.equal(await artifacts.hasAllKeys([]), true);
  },

  "tvmjs: errors and aborts reject, and nothing is stored": async (t) => {
    const cache = await t.open();
    const artifacts = t.warmstart.asArtifactCache(cache);
    await t.rejects(artifacts.addToCache(file(t, { status: 404 })), "http_error");
    await t.rejects(artifacts.fetchWithCache(file(t, { status: 404 }), "json"), "http_error");
    await t.rejects(artifacts.addToCache(file(t), "arraybuffer", AbortSignal.abort()), "AbortError");
    t.equal((await cache.entries()).length, 0);
  },
};
