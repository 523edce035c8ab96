// Calls that are made together, and calls for one key.

const MIB = 1024 * 1024;

/** Counts the transactions that `work` begins. */
async function transactionsOf(t, work) {
  const original = IDBDatabase.prototype.transaction;
  const begun = { readonly: 0, readwrite: 0 };
  IDBDatabase.prototype.transaction = function (names, mode = "readonly", options) {
    if ([names].flat().includes("values")) begun[mode]++;
    return original.call(this, names, mode, options);
  };
  t.after(() => (IDBDatabase.prototype.transaction = original));
  // Otherwise the first reads may use the transaction of those before.
  await t.sleep(0);
  await work();
  IDBDatabase.prototype.transaction = original;
  return begun;
}

export const tests = {
  "calls of one tick are one transaction": async (t) => {
    const cache = await t.open();
    const keys = Array.from({ length: 200 }, (_, at) => `key ${at}`);
    const put = await transactionsOf(t, () => Promise.all(keys.map((key) => cache.put(key, key))));
    t.equal(put.readwrite, 1, "200 puts");
    const got = await transactionsOf(t, async () => {
      t.equal(await Promise.all(keys.map((key) => cache.get(key, "text"))), keys);
    });
    t.equal(got, { readonly: 1, readwrite: 0 }, "200 gets");
    const had = await transactionsOf(t, () => Promise.all(keys.map((key) => cache.has(key))));
    t.equal(had, { readonly: 1, readwrite: 0 }, "200 times has");
  },

  "puts during a transaction share the next one": async (t) => {
    const cache = await t.open();
    const begun = await transactionsOf(t, async () => {
      const puts = [];
      for (let at = 0; at < 100; at++) {
        puts.push(cache.put(`key ${at}`, "value"));
        await Promise.resolve();
      }
      t.ok((await Promise.all(puts)).every(Boolean));
    });
    t.ok(begun.readwrite <= 4, `${begun.readwrite} transactions`);
    t.equal((await cache.stats()).entries, 100);
  },

  "reads one after the other share transactions": async (t) => {
    const cache = await t.open();
    const keys = Array.from({ length: 200 }, (_, at) => `key ${at}`);
    await cache.putMany(keys.map((key) => [key, key]));
    const begun = await transactionsOf(t, async () => {
      for (const key of keys) t.equal(await cache.get(key, "text"), key);
    });
    t.ok(begun.readonly <= 100, `${begun.readonly} transactions`);
  },

  "a put of any tab does not wait for a loop of reads": async (t) => {
    const cache = await t.open();
    const other = await t.open({ name: cache.name });
    await cache.put("key", "value");
    for (const writer of [cache, other]) {
      let isStored = false;
      const storing = writer.put("other", "value").then(() => (isStored = true));
      const until = performance.now() + 5000;
      while (!isStored && performance.now() < until) t.equal(await cache.get("key", "text"), "value");
      t.ok(isStored, "stored while the loop runs");
      await storing;
    }
  },

  "putMany and getMany keep the order": async (t) => {
    const cache = await t.open();
    const entries = [
      ["a", "1"],
      ["b", t.bytes(MIB)],
      [new Uint8Array([255]), "3"],
    ];
    t.equal(await cache.putMany(entries), [true, true, true]);
    const back = await cache.getMany([new Uint8Array([255]), "none", "a"], "text");
    t.equal(back, ["3", undefined, "1"]);
  },

  "the put that was called last wins": async (t) => {
    const cache = await t.open();
    const slow = t.bytes(60 * MIB);
    const both = [cache.put("key", slow), cache.put("key", "small")];
    t.equal(await Promise.all(both), [true, true]);
    t.equal(await cache.get("key", "text"), "small");
  },

  "a read sees the put that was called before it": async (t) => {
    const cache = await t.open();
    for (const size of [10, 4 * MIB]) {
      const stored = cache.put("key", t.bytes(size, 9));
      t.equal(await cache.get("key"), t.bytes(size, 9));
      t.ok(await stored);
      const gone = cache.delete("key");
      t.equal(await cache.has("key"), false);
      t.ok(await gone);
    }
  },

  "a delete and a put take effect in the order of the calls": async (t) => {
    const cache = await t.open();
    await cache.put("key", "old");
    const calls = [cache.delete("key"), cache.put("key", "new")];
    t.equal(await Promise.all(calls), [true, true]);
    t.equal(await cache.get("key", "text"), "new");
    await Promise.all([cache.put("key", t.bytes(5 * MIB)), cache.delete("key")]);
    t.equal(await cache.has("key"), false);
  },

  "a clear and a put take effect in the order of the calls": async (t) => {
    const cache = await t.open();
    await cache.put("old", "1");
    await Promise.all([cache.clear(), cache.put("new", "2")]);
    t.equal(await cache.getMany(["old", "new"], "text"), [undefined, "2"]);
  },

  "a stream whose key is deleted meanwhile is not stored": async (t) => {
    const cache = await t.open();
    let finish;
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(new Uint8Array(10));
        finish = () => controller.close();
      },
    });
    const stored = cache.put("key", stream);
    t.equal(await cache.has("key"), false, "a read does not wait for a stream");
    await cache.delete("key");
    finish();
    t.equal(await stored, false);
    t.equal(await cache.has("key"), false);
  },

  "a closed cache misses and refuses with a reason": async (t) => {
    const cache = await t.open();
    const last = cache.put("key", "value");
    await cache.close();
    t.ok(await last, "close waits for what was put");
    t.equal(await cache.get("key"), undefined);
    t.equal(await cache.put("key", "value"), false);
    t.equal(await cache.has("key"), false);
    t.equal(await cache.getOrCreate("key", () => "built", { as: "text" }), "built");
  },

  "listeners receive hits, misses, writes and refusals": async (t) => {
    const cache = await t.open({ maxBytes: 10_000 });
    const told = [];
    for (const name of ["hit", "miss", "stored", "refused"]) {
      cache.events.on(name, ({ text, size, reason }) => told.push([name, text, size ?? reason]));
    }
    const stop = cache.events.on("hit", () => told.push(["once"]));
    await cache.get("key");
    await cache.put("key", "value");
    await cache.get("key");
    stop();
    await cache.get(new TextEncoder().encode("key"));
    t.equal(await cache.put("large", new Uint8Array(20_000)), false);
    t.equal(told, [
      ["miss", "key", "absent"],
      ["stored", "key", 5],
      ["hit", "key", 5],
      ["once"],
      ["hit", "key", 5],
      ["refused", "large", 20_000],
    ]);
  },

  "a put right after clear() is kept, in memory too": async (t) => {
    for (const memory of [false, true]) {
      const cache = await t.open({ memory });
      await cache.put("key", "old");
      const [, did] = await Promise.all([cache.clear(), cache.put("key", "new")]);
      t.equal([did, await cache.get("key", "text")], [true, "new"], `memory: ${memory}`);
    }
  },
};
