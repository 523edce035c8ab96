// IndexedDB is missing or unusable: the cache is in memory, and warns once.

const INJURIES = {
  "IndexedDB is absent": () => {
    delete globalThis.indexedDB;
    kit.equal(globalThis.indexedDB, undefined);
    return "unavailable";
  },
  "to look at IndexedDB throws": () => {
    const get = () => {
      throw new DOMException("The operation is insecure.", "SecurityError");
    };
    Object.defineProperty(globalThis, "indexedDB", { configurable: true, get });
    return "unavailable";
  },
  "to open throws": () => {
    IDBFactory.prototype.open = () => {
      throw new DOMException("The operation is insecure.", "SecurityError");
    };
    return "unavailable";
  },
  "to open fails": () => {
    // A request that fails by itself: of a version below the one that is there.
    const open = IDBFactory.prototype.open;
    const ready = raw.openRaw("of another version", { version: 9 }).then((database) => database.close());
    IDBFactory.prototype.open = function () {
      return open.call(this, "of another version", 1);
    };
    return ready.then(() => undefined);
  },
  "an old connection blocks it": async (name) => {
    await raw.openRaw(raw.databaseOf(name), { version: 1, stubborn: true });
    kit.equal(await raw.deleteRaw(raw.databaseOf(name)), "blocked");
    return "busy";
  },
  "a newer version was there": async (name) => {
    const upgrade = (database) => database.createObjectStore("newer").put("kept", "key");
    (await raw.openRaw(raw.databaseOf(name), { version: 1000, upgrade })).close();
    return "newer_version";
  },
  "its stores are not ours": async (name) => {
    const upgrade = (database) => database.createObjectStore("foreign").put("kept", "key");
    (await raw.openRaw(raw.databaseOf(name), { version: 1, upgrade })).close();
    return undefined;
  },
};

export const cases = {
  "without IndexedDB there is memory, and it is said once": async (t) => {
    const browser = await t.browser();
    for (const [name, injure] of Object.entries(INJURIES)) {
      try {
        await hurt(t, browser, injure);
      } catch (error) {
        throw new Error(name, { cause: error });
      }
    }
  },

  "a newer version's database is left as it was": async (t) => {
    const browser = await t.browser();
    const page = await t.page(browser);
    await page.evaluate(async () => {
      const upgrade = (database) => database.createObjectStore("newer").put("kept", "key");
      (await raw.openRaw(raw.databaseOf("later"), { version: 1000, upgrade })).close();
      const cache = await warmstart.open({ name: "later", onWarning: () => undefined });
      await cache.put("key", "value");
      await cache.clear();
      await cache.close();
      const database = await raw.openRaw(raw.databaseOf("later"));
      kit.equal([database.version, [...database.objectStoreNames]], [1000, ["newer"]]);
      database.close();
      kit.equal(await raw.records("later", "newer"), [["key", "kept"]]);
    });
  },

  "a page without WebGPU uses everything else": async (t) => {
    const browser = await t.launch({ webgpu: false });
    const page = await t.page(browser);
    await page.evaluate(async () => {
      kit.equal((await navigator.gpu?.requestAdapter()) ?? null, null, "there is no adapter");
      const cache = await warmstart.open({ name: "no gpu" });
      kit.equal(await cache.put("key", "value"), true);
      const { lists, stop } = warmstart.watchDevices(cache, "model");
      kit.equal(lists, []);
      stop();
      kit.equal(await cache.get("key", "text"), "value");
    });
    t.equal(page.problems, []);
  },

  "a page whose policy forbids WebAssembly, or that has none, is told how to allow it": async (t) => {
    const browser = await t.browser();
    const policy = () => {
      const meta = document.createElement("meta");
      Object.assign(meta, { httpEquiv: "Content-Security-Policy", content: "script-src 'self' 'unsafe-inline'" });
      document.head.append(meta);
    };
    for (const forbid of [policy, () => delete globalThis.WebAssembly]) {
      const page = await t.page(browser);
      await page.evaluate(forbid);
      await page.evaluate(async () => {
        const { message } = await kit.rejects(warmstart.open({ name: "forbidden" }), "unsupported");
        kit.ok(message.includes("'wasm-unsafe-eval'"), message);
      });
    }
  },
};

async function hurt(t, browser, injure) {
  const page = await t.page(browser);
  const said = [];
  page.on("console", (message) => message.type() === "warning" && said.push(message.text()));
  await page.addScriptTag({ content: `globalThis.injure = ${injure}` });
  await page.evaluate(async () => {
    const name = crypto.randomUUID();
    const reason = await injure(name);
    const warnings = [];
    const cache = await warmstart.open({ name, onWarning: (warning) => warnings.push(warning) });
    kit.equal(cache.backend, "memory");
    const stats = await cache.stats();
    kit.ok(stats.reason, "a reason");
    if (reason) kit.equal(stats.reason, reason);
    await cache.put("key", kit.bytes(100_000, 1));
    kit.equal(await cache.get("key"), kit.bytes(100_000, 1));
    let builds = 0;
    const build = () => ((builds += 1), "built");
    for (let at = 0; at < 3; at += 1) kit.equal(await cache.getOrCreate("built", build, { as: "text" }), "built");
    kit.equal(builds, 1);
    kit.equal(await cache.get("never"), undefined);
    kit.equal([await cache.delete("key"), await cache.has("key")], [true, false]);
    await cache.clear();
    kit.equal(warnings.map((warning) => warning.code), ["memory_only"], "said once");
    await cache.close();
    // Without a listener the warning goes to the console, once.
    const quiet = await warmstart.open({ name });
    await quiet.put("a", "a");
    await quiet.put("b", "b");
    await quiet.close();
  });
  t.equal(said.length, 1, said.join(" | "));
  t.equal(page.problems, []);
  await page.close();
}
