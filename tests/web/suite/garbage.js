// The browser collects garbage while values are read and written, and must not collect pending work. Chromium collects the BYOB
// reader of a Blob although a read of it is pending, and then that read never ends.

const MIB = 1024 * 1024;
const KEYS = Array.from({ length: 8 }, (_, at) => `key ${at}`);

/** Waits for `works` while garbage is collected again and again. */
async function amid(t, works) {
  if (typeof globalThis.gc !== "function") t.lacking("function that collects garbage");
  let isOver = false;
  const collecting = (async () => {
    while (!isOver) {
      globalThis.gc();
      await t.sleep(1);
    }
  })();
  try {
    return await Promise.all(works());
  } finally {
    isOver = true;
    await collecting;
  }
}

/** A cache with a value of `size` bytes under each key. */
async function filled(t, size) {
  const cache = await t.open();
  const stored = await cache.putMany(KEYS.map((key, at) => [key, t.bytes(size, at)]));
  t.equal(stored, KEYS.map(() => true));
  return cache;
}

/** Fails unless each key has its value. */
async function expectAll(t, cache, size) {
  for (const [at, key] of KEYS.entries()) t.equal(await cache.get(key), t.bytes(size, at));
}

const reading = (as, bytesOf) => async (t) => {
  for (const size of [100_000, 5 * MIB]) {
    const cache = await filled(t, size);
    const read = await amid(t, () => KEYS.map(async (key) => bytesOf(await cache.get(key, as))));
    read.forEach((bytes, at) => t.equal(new Uint8Array(bytes), t.bytes(size, at)));
  }
};

const writing = (valueOf) => async (t) => {
  for (const size of [1000, 100_000, 5 * MIB]) {
    const cache = await t.open();
    const write = async (key, at) => cache.put(key, await valueOf(t, size, at));
    const stored = await amid(t, () => KEYS.map(write));
    t.equal(stored, KEYS.map(() => true));
    await expectAll(t, cache, size);
  }
};

const slowly = (t, size, at) => t.url(`/faults/bytes?size=${size}&seed=${at}&slow=${size * 4}`);

export const tests = {
  "values are read as bytes": reading("bytes", (bytes) => bytes),
  "values are read as Blobs": reading("blob", (blob) => blob.arrayBuffer()),
  "values are read as responses": reading("response", (response) => response.arrayBuffer()),
  "values of a Blob are written": writing((t, size, at) => new Blob([t.bytes(size, at)])),
  "the stream of a Blob is written": writing((t, size, at) => new Blob([t.bytes(size, at)]).stream()),
  "a response with a Blob is written": writing((t, size, at) => new Response(new Blob([t.bytes(size, at)]))),
  "a response is written while it arrives": writing((t, size, at) => fetch(slowly(t, size, at))),
  "what a response becomes is built": async (t) => {
    const cache = await t.open();
    const build = (at) => () => new Response(new Blob([t.bytes(MIB, at)]));
    const built = await amid(t, () => KEYS.map((key, at) => cache.getOrCreate(key, build(at))));
    built.forEach((bytes, at) => t.equal(bytes, t.bytes(MIB, at)));
    await expectAll(t, cache, MIB);
  },
  "a file is downloaded": async (t) => {
    const cache = await t.open();
    const urls = KEYS.map((_, at) => slowly(t, MIB, at));
    const files = await amid(t, () => urls.map((url) => t.warmstart.download(cache, [url])));
    files.forEach(([file], at) => t.equal(file, t.bytes(MIB, at)));
    for (const [at, url] of urls.entries()) t.equal(await cache.get(url), t.bytes(MIB, at));
  },
  "transformers.js stores a response and receives progress": async (t) => {
    const cache = await t.open();
    let told = 0;
    const adapter = t.warmstart.asTransformersCache(cache);
    const store = (key, at) => {
      const response = new Response(new Blob([t.bytes(MIB, at)]), { headers: { "content-type": "text/plain" } });
      return adapter.put(`https://example.org/${key}`, response, () => (told += 1));
    };
    await amid(t, () => KEYS.map(store));
    t.ok(told >= KEYS.length);
    const match = async (key) => (await adapter.match(`https://example.org/${key}`)).arrayBuffer();
    for (const [at, key] of KEYS.entries()) t.equal(new Uint8Array(await match(key)), t.bytes(MIB, at));
  },
  "a lock is waited for": async (t) => {
    const name = t.database();
    const caches = [await t.open({ name }), await t.open({ name })];
    const build = async () => {
      await t.sleep(200);
      return "built";
    };
    const built = await amid(t, () => caches.map((cache) => cache.getOrCreate("key", build, { as: "text" })));
    t.equal(built, ["built", "built"]);
  },
};
