// The quota is exceeded: the cache evicts and retries, and otherwise keeps the value in memory.

export const deep = ["large values beyond the quota evict older ones"];
export const modes = ["default", "sqlite"];

const MIB = 1 << 20;

export const cases = {
  "large values beyond the quota evict older ones": async (t) => {
    const browser = await t.browser();
    let page = await t.page(browser);
    await browser.quota(page, 40 * MIB);
    const first = await page.evaluate(async (size) => {
      const warnings = [];
      const cache = await warmstart.open({ name: "full", onWarning: (warning) => warnings.push(warning.code) });
      for (let at = 0; at < 12; at += 1) {
        await cache.put(`value ${at}`, kit.bytes(size, at));
        kit.equal(await cache.get(`value ${at}`), kit.bytes(size, at), `value ${at}, just put`);
      }
      // Chromium gives the room of a removed Blob back some seconds later, and what is in memory is stored then, too.
      let stored = false;
      for (let round = 0; !stored && round < 10; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        stored = await cache.put("value 11", kit.bytes(size, 11));
      }
      const stats = await cache.stats();
      await cache.close();
      return { stored, stats, warnings };
    }, 6 * MIB);
    t.equal(first.stats.backend, "indexeddb");
    t.equal(first.stored, true, "there is room again");
    t.ok(first.stats.evictions >= 1, "older ones went");
    t.ok(first.warnings.length <= 1, `said once: ${first.warnings}`);
    t.equal(first.stats.misses, {});

    // Another page of the same visit: what was acknowledged last is in the database, and not only in memory.
    page = await t.page(browser);
    await page.evaluate(async (size) => {
      const cache = await warmstart.open({ name: "full" });
      kit.equal(await cache.get("value 11"), kit.bytes(size, 11));
      kit.equal(await cache.get("value 0"), undefined);
    }, 6 * MIB);
  },

  "entries can be removed when the quota has shrunk": async (t) => {
    const browser = await t.browser();
    const page = await t.page(browser);
    await browser.quota(page, 40 * MIB);
    const put = (first, after) =>
      page.evaluate(
        async ([size, first, after]) => {
          globalThis.cache ??= await warmstart.open({ name: "shrunk" });
          let stored = 0;
          for (let at = first; at < after; at += 1) stored += (await cache.put(`value ${at}`, kit.bytes(size, at))) ? 1 : 0;
          return { stored, evictions: (await cache.stats()).evictions };
        },
        [3 * MIB, first, after],
      );
    t.equal(await put(0, 12), { stored: 12, evictions: 0 });
    await browser.quota(page, 20 * MIB);
    const { stored, evictions } = await put(12, 24);
    t.ok(stored > 0, "there came to be room");
    t.ok(evictions > 4, `enough went: ${evictions}`);
    await browser.quota(page, 4 * MIB);
    t.equal(
      await page.evaluate(async () => {
        await cache.clear();
        return [(await cache.entries()).length, (await cache.stats()).entries];
      }),
      [0, 0],
    );
    t.equal(await page.evaluate(async () => (await raw.records("shrunk")).length), 0);
    await browser.quota(page);
  },

  "a value larger than the quota is refused, and in memory": async (t) => {
    const browser = await t.browser();
    const page = await t.page(browser);
    await browser.quota(page, 20 * MIB);
    await page.evaluate(async (size) => {
      const warnings = [];
      const cache = await warmstart.open({ name: "huge", onWarning: (warning) => warnings.push(warning.code) });
      kit.equal(await cache.put("huge", kit.bytes(size, 1)), false);
      kit.equal((await cache.stats()).refusals, { no_space: 1 });
      kit.equal(await cache.get("huge"), kit.bytes(size, 1), "from memory");
      let builds = 0;
      const build = () => ((builds += 1), kit.bytes(size, 2));
      kit.equal(await cache.getOrCreate("built", build), kit.bytes(size, 2), "what was built is handed out");
      kit.equal(builds, 1);
      kit.equal(warnings.length, 1, "said once");
    }, 40 * MIB);
    await browser.quota(page);
    await page.evaluate(async (size) => {
      const cache = await warmstart.open({ name: "huge again" });
      kit.equal(await cache.put("huge", kit.bytes(size, 1)), true, "as soon as there is room");
      kit.equal(cache.backend, "indexeddb");
    }, 40 * MIB);
  },

  "small values beyond the quota push out older ones too": async (t) => {
    const browser = await t.browser();
    const page = await t.page(browser);
    await browser.quota(page, 4 * MIB);
    const stats = await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "small", onWarning: () => undefined });
      for (let batch = 0; batch < 30; batch += 1) {
        const entries = Array.from({ length: 20 }, (_, at) => [`${batch}-${at}`, kit.bytes(32 << 10, batch * 20 + at)]);
        await cache.putMany(entries);
        for (const [key, value] of entries.slice(-3)) kit.equal(await cache.get(key), value, key);
      }
      await cache.flush();
      return cache.stats();
    });
    t.equal(stats.misses, {});
    t.ok(stats.evictions > 300 || stats.refusals.no_space > 0, JSON.stringify(stats));
  },
};
