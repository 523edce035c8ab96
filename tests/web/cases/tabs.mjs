// Two tabs of one origin.

export const modes = ["default", "sqlite"];

export const cases = {
  "what both tabs want is built in one of them": async (t) => {
    const browser = await t.browser();
    const tabs = [await t.page(browser), await t.page(browser)];
    const create = async (name) => {
      const cache = await warmstart.open({ name });
      const build = async () => {
        await fetch("/faults/bytes?size=1&build=1");
        await new Promise((resolve) => setTimeout(resolve, 500));
        return kit.bytes(100_000, 5);
      };
      kit.equal(await cache.getOrCreate("wanted", build), kit.bytes(100_000, 5));
      return (await cache.stats()).builds;
    };
    const builds = await Promise.all(tabs.map((tab) => tab.evaluate(create, "shared")));
    t.equal(builds.toSorted(), [0, 1]);
    t.equal(t.server.requests("/faults/bytes?size=1&build"), 1);
  },

  "a tab that closes or crashes leaves its build to another": async (t) => {
    for (const end of [(tab) => tab.close(), crash]) {
      const browser = await t.launch({ profile: await t.folder("profile"), flags: ["--site-per-process", "--process-per-tab"] });
      const [builder, heir] = [await t.page(browser), await t.page(browser)];
      const started = new Promise((resolve) => t.server.mount("/started", (_, response) => resolve(response.end())));
      const dies = builder
        .evaluate(async () => {
          const cache = await warmstart.open({ name: "inherited" });
          await cache.getOrCreate("wanted", async () => {
            await fetch("/started");
            return new Promise(() => undefined);
          });
        })
        .catch(() => undefined);
      await started;
      const inherits = heir.evaluate(async () => {
        const cache = await warmstart.open({ name: "inherited" });
        const value = await cache.getOrCreate("wanted", () => "mine", { as: "text" });
        return [value, (await cache.stats()).builds];
      });
      // Long enough to be waiting; were it not, it would build too, and the case would still tell.
      await new Promise((resolve) => setTimeout(resolve, 300));
      await end(builder);
      t.equal(await inherits, ["mine", 1]);
      await dies;
      await browser.close();
    }
  },

  "a newer version in another tab is not blocked nor changed": async (t) => {
    const browser = await t.browser();
    const [old, newer] = [await t.page(browser), await t.page(browser)];
    await old.evaluate(async () => {
      globalThis.warnings = [];
      globalThis.cache = await warmstart.open({ name: "upgraded", onWarning: (warning) => warnings.push(warning.code) });
      kit.equal(await cache.put("before", "before"), true);
    });
    await newer.evaluate(async () => {
      const upgrade = (database) => {
        for (const store of [...database.objectStoreNames]) database.deleteObjectStore(store);
        database.createObjectStore("of a newer version").put("kept", "key");
      };
      (await raw.openRaw(raw.databaseOf("upgraded"), { version: 1000, upgrade })).close();
    });
    await old.evaluate(async () => {
      kit.equal(await cache.get("before"), undefined);
      await cache.put("after", "after");
      kit.equal(await cache.get("after", "text"), "after");
      kit.equal(cache.backend, "memory");
      kit.equal(warnings.length, 1, "said once");
    });
    await newer.evaluate(async () => {
      const found = await raw.records("upgraded", "of a newer version");
      kit.equal(found, [["key", "kept"]]);
    });
  },

  "a database that another tab deletes is gone, and both go on": async (t) => {
    const browser = await t.browser();
    const [one, other] = [await t.page(browser), await t.page(browser)];
    await one.evaluate(async () => {
      globalThis.cache = await warmstart.open({ name: "deleted", onWarning: () => undefined });
      kit.equal(await cache.put("before", "before"), true);
    });
    t.equal(await other.evaluate(() => raw.deleteRaw(raw.databaseOf("deleted"))), "deleted");
    await one.evaluate(async () => {
      kit.equal(await cache.get("before"), undefined);
      await cache.put("after", "after");
      kit.equal(await cache.get("after", "text"), "after");
    });
  },

  "what one tab evicts or deletes, the other misses": async (t) => {
    const browser = await t.browser();
    const [one, other] = [await t.page(browser), await t.page(browser)];
    const open = () => warmstart.open({ name: "evicted", maxEntries: 3 }).then((cache) => void (globalThis.cache = cache));
    await one.evaluate(open);
    await one.evaluate(() => cache.putMany(["a", "b", "c"].map((key) => [key, key])));
    await other.evaluate(open);
    t.equal(await other.evaluate(() => cache.get("a", "text")), "a");
    await one.evaluate(async () => {
      for (const key of ["d", "e", "f"]) await cache.put(key, key);
      await cache.delete("f");
    });
    await other.evaluate(async () => {
      kit.equal(await Promise.all(["b", "c", "f"].map((key) => cache.get(key))), [undefined, undefined, undefined]);
      kit.equal(await cache.has("f"), false);
      kit.equal(await cache.get("e", "text"), "e");
      kit.equal((await cache.stats()).misses, { absent: 3 });
    });
  },

  "the cap holds when both tabs write": async (t) => {
    const browser = await t.browser();
    const tabs = [await t.page(browser), await t.page(browser)];
    const cap = 2 << 20;
    const fill = async ([mine, maxBytes]) => {
      const cache = await warmstart.open({ name: "both", maxBytes });
      for (let batch = 0; batch < 25; batch += 1) {
        const entries = Array.from({ length: 8 }, (_, at) => [`${mine}-${batch}-${at}`, kit.bytes(30_000, at)]);
        kit.equal(await cache.putMany(entries), entries.map(() => true));
      }
      kit.equal(await cache.put(`${mine}-large`, kit.bytes(500_000, mine)), true);
      await cache.close();
    };
    await Promise.all(tabs.map((tab, at) => tab.evaluate(fill, [at, cap])));
    const found = await tabs[0].evaluate(async (maxBytes) => {
      const before = await raw.records("both");
      const cache = await warmstart.open({ name: "both", maxBytes });
      const { bytes, entries } = await cache.stats();
      const listed = (await cache.entries()).reduce((sum, entry) => sum + entry.storedSize, 0);
      return { bytes, entries, listed, records: before.length };
    }, cap);
    t.ok(found.bytes <= cap && found.listed <= cap, JSON.stringify(found));
    t.equal(found.records, found.entries, "before another opening");
    t.ok(found.bytes > cap / 2, "and it is used");
  },
};

async function crash(tab) {
  const session = await tab.context().newCDPSession(tab);
  // It is never answered.
  session.send("Page.crash").catch(() => undefined);
  await tab.waitForEvent("crash");
}
