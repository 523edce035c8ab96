// Attempts to make the cache wrong: concurrent calls, keys that look alike, records that the package did not write.

import { databaseOf, deleteRaw, records, rewrite } from "/tests/web/raw.js";

const LARGE = 300_000;

/** A stream that gives nothing until `end` is called. */
function held() {
  let end;
  const stream = new ReadableStream({
    start(controller) {
      end = (bytes) => {
        controller.enqueue(bytes);
        controller.close();
      };
    },
  });
  return { stream, end: (bytes) => end(bytes) };
}

export const tests = {
  "a removal takes away nothing that two puts stored after it": async (t) => {
    const cache = await t.open();
    await cache.put("key", "old");
    const done = [cache.delete("key"), cache.put("key", "one"), cache.put("key", "two")];
    t.equal(await Promise.all(done), [true, true, true]);
    t.equal(await cache.get("key", "text"), "two");
  },

  "a removal beside an endless stream removes the older value": async (t) => {
    for (const remove of ["delete", "clear"]) {
      const cache = await t.open({ maxEntries: 1 });
      await cache.put("old", "value");
      const busy = cache.put("other", "value");
      // It is being stored and evicts old entries, so that the next call has to wait.
      for (let turn = 0; turn < 20; turn++) await undefined;
      const first = cache.put("key", "one");
      const { stream, end } = held();
      const second = cache.put("key", stream);
      await cache[remove]("key");
      t.equal(await cache.get("key", "text"), undefined, remove);
      end(new TextEncoder().encode("two"));
      await Promise.all([busy, first, second]);
      t.equal(await cache.get("key", "text"), undefined, remove);
    }
  },

  "bytes that are no UTF-8 are keys of their own, also at once": async (t) => {
    const cache = await t.open();
    const keys = [0x80, 0x81, 0xfe, 0xff].map((byte) => Uint8Array.of(byte, 0, 0, 0));
    const stored = await cache.putMany(keys.map((key, at) => [key, t.bytes(LARGE, at)]));
    t.equal(stored, [true, true, true, true]);
    for (const [at, key] of keys.entries()) t.equal(await cache.get(key), t.bytes(LARGE, at));
    const [put, removed] = [cache.put(keys[0], new Blob([t.bytes(LARGE, 9)])), cache.delete(keys[1])];
    t.equal([await put, await removed], [true, true]);
    t.equal(await cache.get(keys[0]), t.bytes(LARGE, 9));
  },

  "a key with half a surrogate pair is refused": async (t) => {
    const cache = await t.open();
    const { key } = t.warmstart;
    for (const text of ["\ud800", "a\udfff", "\udc00\ud800"]) {
      await t.rejects(async () => cache.put(text, "value"), "invalid_argument");
      await t.rejects(async () => cache.get(text), "invalid_argument");
      await t.rejects(async () => key("test", 1, { field: text }), "invalid_argument");
      await t.rejects(async () => key("test", 1, { [text]: 1 }), "invalid_argument");
      await t.rejects(async () => key("test", 1, { list: ["a", text] }), "invalid_argument");
      await t.rejects(async () => key(text, 1, { field: 1 }), "invalid_argument");
    }
    t.equal(await cache.put("\u{1f600}", "value"), true);
    t.equal(await cache.get("\u{1f600}", "text"), "value");
  },

  "a malformed record is a miss, and costs no other entry": async (t) => {
    const head = { h: new Uint8Array(128), c: 0, b: [] };
    const hostile = [
      { ...head, p: null },
      { ...head, p: 7 },
      { ...head, p: { id: "1", lengths: [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] } },
      { ...head, p: { id: "1", lengths: [-1] } },
      { ...head, p: { id: "1", lengths: [1, , 3] } },
      { ...head, p: { id: 1, lengths: [] } },
      { h: new Uint8Array(0), c: NaN, b: [] },
      { h: new Uint8Array(8), c: -1, b: [new Blob(["x"]), null] },
      { ...head, b: new Array(5) },
      new Uint16Array(64),
      new Map([["h", 1]]),
      [],
      null,
      new Date(NaN),
      1n,
      new Error("no"),
    ];
    for (const [at, record] of hostile.entries()) {
      const name = t.database();
      let cache = await t.open({ name });
      await cache.putMany([["a", "1"], ["b", "2"], ["c", "3"]]);
      await cache.put("other", "x");
      const listed = await cache.entries();
      t.equal(listed.length, 4);
      let seen = 0;
      await cache.close();
      await rewrite(name, (value) => (seen++ === 1 ? record : value));
      await rewrite(name, () => undefined, "log");
      cache = await t.open({ name, maxEntries: 4 });
      const found = await cache.getMany(["a", "b", "c", "other"], "text");
      t.equal(found.filter((text) => text !== undefined).length, 3, `record ${at}`);
      t.equal((await cache.stats()).entries, 3, `record ${at} is not counted`);
      t.equal((await cache.entries()).length, 3);
      t.equal(await cache.verify(), []);
      await cache.close();
    }
  },

  "accounts are right after the open database was deleted": async (t) => {
    const name = t.database();
    const cache = await t.open({ name, maxEntries: 3 });
    for (const key of "abc") await cache.put(key, key);
    await cache.flush();
    t.equal(await deleteRaw(databaseOf(name)), "deleted");
    const other = await t.open({ name, maxEntries: 3 });
    t.equal(await other.putMany([["x", "1"], ["y", "2"]]), [true, true]);
    await other.flush();
    t.equal(await cache.putMany([["d", "1"]]), [true]);
    t.equal((await cache.stats()).entries, 3);
    t.equal((await records(name)).length, 3);
    await cache.put("e", "1");
    t.equal([(await cache.stats()).entries, (await records(name)).length], [3, 3]);
    t.equal((await other.stats()).entries, 3);
  },

  "a value in memory does not hide a newer one of another tab": async (t) => {
    const name = t.database();
    const one = await t.open({ name, onWarning: () => undefined });
    const two = await t.open({ name });
    await one.put("key", "old");
    const real = IDBObjectStore.prototype.put;
    t.after(() => (IDBObjectStore.prototype.put = real));
    IDBObjectStore.prototype.put = () => {
      throw new DOMException("full", "QuotaExceededError");
    };
    const first = await one.put("key", "from one");
    IDBObjectStore.prototype.put = real;
    t.equal(first, false);
    t.equal(await one.get("key", "text"), "from one");
    t.equal(await two.get("key", "text"), undefined, "what was replaced is gone");
    t.equal(await two.put("key", "from two"), true);
    for (const cache of [one, two]) t.equal(await cache.get("key", "text"), "from two");
  },
};
