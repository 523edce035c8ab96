// Exceptions of a caller's callback are reported like those of an event listener, and do not stop the operation.

/** A callback that throws each time, with how often it was called, and all that is reported from here on. */
function throwing(t) {
  const error = new Error("a listener's own");
  const reported = t.uncaught();
  const seen = { calls: [] };
  seen.listener = (...given) => {
    seen.calls.push(given);
    throw error;
  };
  /** Fails unless it was called at least this often, and every exception was reported. */
  seen.check = (atLeast) => {
    t.ok(seen.calls.length >= atLeast, `${seen.calls.length} calls`);
    t.ok(reported.length === seen.calls.length, `${reported.length} reports of ${seen.calls.length} calls`);
    t.ok(reported.every((each) => each === error), "what was thrown, and nothing else");
  };
  return seen;
}

const file = (t, options) =>
  t.url(`/faults/bytes?${new URLSearchParams({ size: 300_000, seed: 7, id: crypto.randomUUID(), ...options })}`);

export const tests = {
  "a download goes on, and asks no more often": async (t) => {
    const cache = await t.open();
    const seen = throwing(t);
    const url = file(t, { slow: 1_000_000 });
    t.equal(await t.warmstart.download(cache, url, { onProgress: seen.listener }), t.bytes(300_000, 7));
    seen.check(3);
    const [{ loaded, total }] = seen.calls.at(-1);
    t.equal([loaded, total], [300_000, 300_000], "it is told until the end");
    t.equal((await t.counts())[url.slice(t.url("/").length - 1)], 1, "requests");
    t.equal((await cache.entries()).map(({ text }) => text), [url], "what is kept");
  },

  "a download of what is cached is handed out": async (t) => {
    const cache = await t.open();
    const url = file(t);
    await t.warmstart.download(cache, url);
    const seen = throwing(t);
    t.equal(await t.warmstart.download(cache, url, { onProgress: seen.listener }), t.bytes(300_000, 7));
    seen.check(1);
  },

  "a failing listener stops neither a build nor other listeners": async (t) => {
    const cache = await t.open();
    const seen = throwing(t);
    const told = [];
    const build = async ({ onProgress }) => {
      await t.sleep(20);
      onProgress(1, 2);
      onProgress(2, 2);
      return "built";
    };
    const one = cache.getOrCreate("key", build, { as: "text", onProgress: seen.listener });
    const other = cache.getOrCreate("key", build, { as: "text", onProgress: (...given) => told.push(given) });
    t.equal(await Promise.all([one, other]), ["built", "built"]);
    seen.check(2);
    t.equal(told, [[1, 2], [2, 2]]);
    t.ok(await cache.has("key"));
  },

  "a body that is read while it is built is stored": async (t) => {
    const cache = await t.open();
    const seen = throwing(t);
    const url = file(t);
    const value = await cache.getOrCreate(url, () => fetch(url), { onProgress: seen.listener });
    t.equal(value, t.bytes(300_000, 7));
    seen.check(1);
    t.ok(await cache.has(url));
  },

  "what transformers.js puts is stored": async (t) => {
    const cache = await t.open();
    const seen = throwing(t);
    const url = file(t);
    await t.warmstart.asTransformersCache(cache).put(url, await fetch(url), seen.listener);
    seen.check(1);
    t.equal(await cache.get(url), t.bytes(300_000, 7));
  },

  "a warning ends no write, and is given once": async (t) => {
    const own = Object.getOwnPropertyDescriptor(globalThis, "indexedDB");
    const restore = () => (own ? Object.defineProperty(globalThis, "indexedDB", own) : delete globalThis.indexedDB);
    t.after(restore);
    Object.defineProperty(globalThis, "indexedDB", { value: undefined, configurable: true });
    const seen = throwing(t);
    const cache = await t.open({ onWarning: seen.listener });
    t.equal(await Promise.all(["one", "other"].map((key) => cache.put(key, key))), [true, true]);
    t.equal(await cache.get("one", "text"), "one");
    await t.sleep(20);
    seen.check(1);
    t.equal(seen.calls.map(([{ code }]) => code), ["memory_only"]);
    restore();
  },

  "an event reaches the listeners after a failing one": async (t) => {
    const cache = await t.open();
    const seen = throwing(t);
    const told = [];
    cache.events.on("stored", seen.listener);
    cache.events.on("stored", ({ text }) => told.push(text));
    t.equal(await cache.put("key", "value"), true);
    seen.check(1);
    t.equal(told, ["key"]);
  },

  "a listener cannot change what a build returned": async (t) => {
    const cache = await t.open({ maxBytes: 10 });
    const bytes = new Uint8Array(100).fill(1);
    cache.events.on("refused", () => bytes.fill(2));
    t.equal(await cache.getOrCreate("key", () => bytes), new Uint8Array(100).fill(1));
  },
};
