// Values that survive a restart of the browser.

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";

export const modes = ["default", "sqlite"];

const LARGE = 32 << 20;
/** The caches of pages that go while a use is pending. */
const LEFT = ["left", "left again", "left once more"];

/** The values of a visit, and what the next visit finds. The last two end just before the browser closes. */
const VISITS = {
  "what was used last is known after a restart, and stays": {
    leave: async (t, page) => {
      await page.evaluate(async () => {
        const cache = await warmstart.open({ name: "recent", maxEntries: 3 });
        for (const key of ["a", "b", "c"]) {
          await cache.put(key, key);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        kit.equal(await cache.get("a", "text"), "a");
        await cache.close();
      });
    },
    find: async (t, page) => {
      await page.evaluate(async () => {
        const cache = await warmstart.open({ name: "recent", maxEntries: 3 });
        await cache.put("d", "d");
        kit.equal(await Promise.all(["a", "b", "c", "d"].map((key) => cache.has(key))), [true, false, true, true]);
      });
    },
  },

  "values, and what is known of them, are there after a restart": {
    leave: async (t, page) => {
      const stored = await page.evaluate(async (large) => {
        const cache = await warmstart.open({ name: "kept" });
        const json = new Response('{"a":1}', { headers: { "content-type": "application/json", etag: '"1"' } });
        return Promise.all([
          cache.put("small", kit.bytes(4096, 1), { label: "A small one" }),
          cache.put("large", kit.bytes(large, 2)),
          cache.put("nothing", ""),
          cache.put("answer", json),
        ]);
      }, LARGE);
      t.equal(stored, [true, true, true, true]);
    },
    find: async (t, page) => {
      await page.evaluate(async (large) => {
        const cache = await warmstart.open({ name: "kept" });
        kit.equal(cache.backend, "indexeddb");
        kit.equal(await cache.get("small"), kit.bytes(4096, 1), "small");
        kit.equal(await cache.get("large"), kit.bytes(large, 2), "large");
        kit.equal(await cache.get("nothing"), new Uint8Array(0), "nothing");
        const answer = await cache.get("answer", "response");
        kit.equal([answer.headers.get("content-type"), answer.headers.get("etag")], ["application/json", '"1"']);
        kit.equal(await answer.json(), { a: 1 });
        kit.equal(await cache.get("never"), undefined);
        const labels = (await cache.entries()).map((entry) => entry.label).filter(Boolean);
        kit.equal(labels, ["A small one"]);
        const { entries, hits, misses } = await cache.stats();
        kit.equal([entries, hits, misses.absent], [4, 4, 1]);
      }, LARGE);
    },
  },

  // A browser promises nothing about what a page begins while it goes, so this asks for one of several pages.
  "a use is written down when the page goes": {
    leave: async (t, page, browser) => {
      for (const name of LEFT) {
        const leaving = await t.page(browser);
        const rows = await leaving.evaluate(async (name) => {
          const cache = await warmstart.open({ name, maxEntries: 2 });
          await cache.put("a", "a");
          await cache.put("b", "b");
          await cache.flush();
          const { length } = await raw.records(name, "log");
          kit.equal(await cache.get("a", "text"), "a");
          return length;
        }, name);
        await leaving.goto("about:blank");
        // The browser lives on, as when the user navigates to another page, and writes pending data a moment later.
        const isWritten = await page.evaluate(async ([name, rows]) => {
          for (const until = performance.now() + 10_000; performance.now() < until; ) {
            if ((await raw.records(name, "log")).length > rows) return true;
            await new Promise((resolve) => setTimeout(resolve, 100));
          }
          return false;
        }, [name, rows]);
        if (isWritten) return;
      }
      throw new Error(`none of ${LEFT.length} pages wrote a use when it went`);
    },
    find: async (t, page) => {
      const kept = await page.evaluate(async (names) => {
        const answers = [];
        for (const name of names) {
          const cache = await warmstart.open({ name, maxEntries: 2 });
          await cache.put("c", "c");
          answers.push(`${await cache.has("a")} ${await cache.has("b")}`);
        }
        return answers;
      }, LEFT);
      t.equal(kept.includes("true false"), true);
    },
  },
};

/** A page with a database "torn", of which the browser has lost the file of the record "b", but not those of "a" and "c". */
async function pageWithLostFile(t) {
  const profile = await t.folder("profile");
  const browser = await t.launch({ profile });
  const page = await t.page(browser);
  await page.evaluate(async () => {
    const cache = await warmstart.open({ name: "torn" });
    await cache.putMany(["a", "b", "c"].map((key) => [key, key]));
    await cache.close();
    // Chromium keeps a record of this length in a file.
    await raw.rewrite("torn", (record, key) => (key === "b" ? kit.bytes(200_000, 1) : record));
  });
  await browser.close();
  const files = await readdir(profile, { recursive: true, withFileTypes: true });
  const torn = files.filter((file) => file.isFile() && file.parentPath.includes(".indexeddb.blob"));
  for (const file of torn) await rm(join(file.parentPath, file.name));
  return t.page(await t.launch({ profile }));
}

export const cases = {
  "what visits leave is there after a restart": async (t) => {
    for (const step of ["leave", "find"]) {
      const browser = await t.launch();
      const visits = [];
      for (const [name, visit] of Object.entries(VISITS)) visits.push({ name, visit, page: await t.page(browser) });
      for (const { name, visit, page } of visits) {
        await visit[step](t, page, browser).catch((cause) => {
          throw new Error(name, { cause });
        });
      }
      await browser.close();
    }
  },

  "a record that the browser cannot read costs no other": async (t) => {
    const page = await pageWithLostFile(t);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "torn" });
      kit.equal(await cache.getMany(["a", "b", "c"], "text"), ["a", undefined, "c"]);
      kit.equal(Object.values((await cache.stats()).misses), [1]);
      kit.equal(await cache.put("b", "again"), true);
      kit.equal(await cache.getMany(["c", "b", "a"], "text"), ["c", "again", "a"]);
    });
  },

  "a put does not wait for a loop of reads that fail": async (t) => {
    const page = await pageWithLostFile(t);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "torn" });
      // The transaction of this read takes the next ones.
      kit.equal(await cache.get("a", "text"), "a");
      let isStored = false;
      const storing = cache.put("new", "new").then(() => (isStored = true));
      const until = performance.now() + 5000;
      while (!isStored && performance.now() < until) kit.equal(await cache.get("b"), undefined);
      kit.ok(isStored, "stored while the loop runs");
      await storing;
    });
  },

  "a use survives a killed browser": async (t) => {
    let browser = await t.launch();
    let page = await t.page(browser);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "unclosed", maxEntries: 2 });
      await cache.put("a", "a");
      await new Promise((resolve) => setTimeout(resolve, 20));
      await cache.put("b", "b");
      await new Promise((resolve) => setTimeout(resolve, 20));
      kit.equal(await cache.get("a", "text"), "a");
    });
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    await browser.kill();

    browser = await t.launch();
    page = await t.page(browser);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "unclosed", maxEntries: 2 });
      await cache.put("c", "c");
      kit.equal([await cache.has("a"), await cache.has("b")], [true, false]);
    });
  },
};
