// Keys, and how a cache explains them.

export const tests = {
  "a text and its UTF-8 bytes are one key": async (t) => {
    const cache = await t.open();
    await cache.put("schlüssel", "value");
    t.equal(await cache.get(new TextEncoder().encode("schlüssel"), "text"), "value");
    t.equal(
      (await cache.entries()).map(({ text }) => text),
      ["schlüssel"],
    );
    await cache.put(new Uint8Array([0xff, 0]), "bytes");
    t.equal(await cache.get(new Uint8Array([0xff, 0]), "text"), "bytes");
    t.equal((await cache.entries()).map(({ text }) => text).sort(), ["schlüssel", undefined]);
  },

  "the bytes of a key may be changed after the call": async (t) => {
    const cache = await t.open();
    const key = new Uint8Array([1, 2, 3]);
    const stored = cache.put(key, "value");
    key.fill(0);
    await stored;
    t.equal(await cache.get(new Uint8Array([1, 2, 3]), "text"), "value");
  },

  "a derived key is the digest that Rust derives": async (t) => {
    const { key } = t.warmstart;
    const derived = key("dom", 7, { a: "text", b: new Uint8Array([0, 255]), c: 9, d: ["x", ""] });
    t.equal(derived.bytes.length, 32);
    // Of the preimage that a test of core/src/key.rs spells out.
    t.equal(derived.name, "2771097d37d04f09ff3d28a5612141782f8bd6db6acdee4c2e23c155e4cd4d5d");
    t.equal(
      derived.name,
      key("dom", 7, { a: "text", b: new Uint8Array([0, 255]), c: 9n, d: ["x", ""] }).name,
    );
    const others = [
      key("dom", 8, { a: "text" }),
      key("dom", 7, { a: "text" }),
      key("dom", 7, { a: new TextEncoder().encode("text") }),
      key("dom", 7, { a: ["text"] }),
      key("dom", 7, { b: "text" }),
      key("mod", 7, { a: "text" }),
    ];
    t.equal(new Set(others.map(({ name }) => name)).size, others.length);
  },

  "a field that cannot be in a key is refused by its name": async (t) => {
    const { key } = t.warmstart;
    for (const value of [1.5, -1, NaN, null, undefined, {}, [1], 2n ** 64n]) {
      const error = await t.rejects(async () => key("dom", 1, { odd: value }), "invalid_argument");
      t.ok(error.message.includes('"odd"'), error.message);
    }
    await t.rejects(async () => key("dom", -1, {}), "invalid_argument");
    await t.rejects(async () => key(7, 1, {}), "invalid_argument");
  },

  "a value under a derived key tells what the key was made of": async (t) => {
    const cache = await t.open();
    const { key } = t.warmstart;
    const wanted = key("tuned", 1, { source: "kernel", size: 256 });
    await cache.put(wanted, "fast");
    t.equal(await cache.get(key("tuned", 1, { source: "kernel", size: 256 }), "text"), "fast");
    const [entry] = await cache.entries();
    t.equal([entry.recipe.domain, entry.recipe.schema], ["tuned", 1]);
    t.equal(
      entry.recipe.fields.map(({ label, value }) => [label, value]),
      [
        ["source", "kernel"],
        ["size", "256"],
      ],
    );
  },

  "explain says why, and which field changed": async (t) => {
    const cache = await t.open();
    const { key } = t.warmstart;
    await cache.put(key("tuned", 1, { source: "kernel", size: 256 }), "fast", { label: "the old one" });
    const hit = await cache.explain(key("tuned", 1, { source: "kernel", size: 256 }));
    t.equal([hit.hit, hit.reason], [true, undefined]);
    const miss = await cache.explain(key("tuned", 1, { source: "kernel", size: 512 }));
    t.equal([miss.hit, miss.reason, miss.nearest?.label], [false, "absent", "the old one"]);
    t.equal(miss.nearest.changes, [{ label: "size", old: "256", new: "512" }]);
    t.ok(miss.text.length > 10, miss.text);
    const { hits, misses } = await cache.stats();
    t.equal([hits, misses], [0, {}], "to explain is no use");
  },

  "options that make no sense are refused": async (t) => {
    const { open } = t.warmstart;
    for (const options of [undefined, {}, { name: "" }, { name: 7 }])
      await t.rejects(open(options), "invalid_argument");
    for (const maxBytes of [-1, NaN, "1"]) await t.rejects(open({ name: "n", maxBytes }), "invalid_argument");
    const cache = await t.open();
    await t.rejects(cache.resize({ maxEntries: -1 }), "invalid_argument");
  },

  "a cache that was asked to be in memory says nothing": async (t) => {
    const warnings = [];
    const cache = await t.open({ memory: true, onWarning: (warning) => warnings.push(warning) });
    t.equal(cache.backend, "memory");
    await cache.put("key", "value");
    t.equal(await cache.get("key", "text"), "value");
    await t.sleep(20);
    t.equal(warnings, []);
  },

  "where IndexedDB is absent, memory is used and said once": async (t) => {
    const own = Object.getOwnPropertyDescriptor(globalThis, "indexedDB");
    const restore = () =>
      own ? Object.defineProperty(globalThis, "indexedDB", own) : delete globalThis.indexedDB;
    t.after(restore);
    Object.defineProperty(globalThis, "indexedDB", { value: undefined, configurable: true });
    const said = [];
    const warn = console.warn;
    t.after(() => (console.warn = warn));
    console.warn = (text) => said.push(text);
    const listened = [];
    const quiet = await t.open({ onWarning: ({ code }) => listened.push(code) });
    const event = await t.open();
    event.events.on("warning", ({ code }) => listened.push(code));
    const loud = await t.open();
    for (const cache of [quiet, event, loud]) {
      t.equal(cache.backend, "memory");
      t.ok((await cache.stats()).reason);
      await cache.put("key", "value");
      await cache.put("key", "value");
      t.equal(await cache.get("key", "text"), "value");
    }
    await t.sleep(20);
    t.equal(listened, ["memory_only", "memory_only"]);
    t.equal(said.length, 1);
    restore();
  },
};
