// Empty values, and values larger than a browser stores in one piece.

export const deep = ["a value of 600 MiB comes back whole, after a restart too"];
export const timeout = 240_000;

const HUGE = 600 << 20;

export const cases = {
  "a value of 600 MiB comes back whole, after a restart too": async (t) => {
    let browser = await t.launch();
    let page = await t.page(browser);
    await page.evaluate(async (size) => {
      const cache = await warmstart.open({ name: "huge" });
      // Bytes that no browser can make smaller: Chromium holds no 500 MiB of Blobs of a page.
      kit.equal(await cache.put("huge", kit.bytes(size, 3)), true);
      await cache.close();
    }, HUGE);
    await browser.close();

    browser = await t.launch();
    page = await t.page(browser);
    await page.evaluate(async (size) => {
      const cache = await warmstart.open({ name: "huge" });
      kit.equal(await cache.has("huge"), true);
      const response = await cache.get("huge", "response");
      let at = 0;
      for await (const chunk of response.body) {
        kit.equal(chunk, kit.bytes(chunk.length, 3, at), `the chunk at ${at}`);
        at += chunk.length;
      }
      kit.equal(at, size);
      const bytes = await cache.get("huge");
      kit.equal(bytes.length, size);
      for (const from of [0, (128 << 20) - 50, (512 << 20) - 50, size - 100]) {
        kit.equal(bytes.subarray(from, from + 100), kit.bytes(100, 3, from), `bytes from ${from}`);
      }
      const [entry] = await cache.entries();
      kit.equal(entry.size, size);
      kit.equal(await cache.delete("huge"), true);
    }, HUGE);
  },

  "a value of 0 bytes is a value": async (t) => {
    let browser = await t.launch();
    let page = await t.page(browser);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "empty" });
      const empty = ["", new Uint8Array(0), new ArrayBuffer(0), new Blob([]), new Response(""), new Blob([]).stream()];
      for (const [at, value] of empty.entries()) kit.equal(await cache.put(`empty ${at}`, value), true, `${at}`);
      await cache.close();
    });
    await browser.close();

    browser = await t.launch();
    page = await t.page(browser);
    await page.evaluate(async () => {
      const cache = await warmstart.open({ name: "empty" });
      for (let at = 0; at < 6; at += 1) {
        kit.equal(await cache.get(`empty ${at}`), new Uint8Array(0), `bytes ${at}`);
        kit.equal(await cache.get(`empty ${at}`, "text"), "", `text ${at}`);
        kit.equal((await cache.get(`empty ${at}`, "blob")).size, 0, `blob ${at}`);
        kit.equal(await (await cache.get(`empty ${at}`, "response")).text(), "", `response ${at}`);
        kit.equal(await cache.has(`empty ${at}`), true);
      }
    });
  },
};
