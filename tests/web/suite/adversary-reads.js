// Failures of IndexedDB during reads that share a transaction, and in transactions whose end no caller needs.

import { databaseOf, records, rewrite } from "/tests/web/raw.js";

/** Lets the next read-write transaction fail as at its commit: after everything in it has succeeded. */
function failNextCommit(t) {
  const { commit } = IDBTransaction.prototype;
  const failed = Promise.withResolvers();
  IDBTransaction.prototype.commit = function () {
    IDBTransaction.prototype.commit = commit;
    this.addEventListener("abort", () => failed.resolve());
    // The last request of the transaction, so that it lives until here.
    const last = this.objectStore("values").count();
    last.onsuccess = () => this.abort();
  };
  t.after(() => (IDBTransaction.prototype.commit = commit));
  return failed.promise;
}

/** Deletes a database. */
function gone(name) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(databaseOf(name));
    request.onsuccess = resolve;
    request.onerror = () => reject(request.error);
  });
}

export const tests = {
  "an abort of a transaction without changes keeps the order": async (t) => {
    const cache = await t.open({ maxEntries: 3 });
    for (const key of "abc") {
      await cache.put(key, key);
      await t.sleep(5);
    }
    await cache.get("a");
    await cache.flush();
    const failed = failNextCommit(t);
    t.equal((await cache.stats()).entries, 3);
    // Begins while that transaction is under way.
    t.equal(await cache.put("d", "d"), true);
    await failed;
    t.equal(await Promise.all([..."abcd"].map((key) => cache.has(key))), [true, false, true, true]);
    t.equal((await cache.entries()).map(({ text }) => text), ["c", "a", "d"]);
  },

  "an entry that an aborted put would have evicted is listed": async (t) => {
    const cache = await t.open({ maxEntries: 3 });
    for (const key of "abc") await cache.put(key, key);
    // The put is tried twice.
    const failed = failNextCommit(t).then(() => failNextCommit(t));
    t.equal(await cache.put("d", "d"), false);
    await failed;
    t.equal((await cache.entries()).map(({ text }) => text), ["a", "b", "c", "d"]);
    t.equal((await records(cache.name)).length, 3);
  },

  "accounts are right after a rebuild of the log that aborts": async (t) => {
    for (const isDamaged of [false, true]) {
      const name = t.database();
      let cache = await t.open({ name });
      for (const key of "abc") await cache.put(key, key);
      await cache.close();
      await rewrite(name, () => undefined, "log");
      if (isDamaged) await rewrite(name, (record, key) => (key === "a" ? new Uint8Array(9) : record));
      cache = await t.open({ name, maxEntries: 3 });
      const failed = failNextCommit(t);
      const { entries } = await cache.stats();
      t.equal(entries, isDamaged ? 2 : 3, "counted");
      t.equal(await cache.put("d", "d"), true);
      await failed;
      t.equal((await cache.stats()).entries, 3);
      t.equal((await cache.entries()).length, 3);
      t.equal((await records(name)).length, 3);
      t.equal(await cache.put("e", "e"), true);
      t.equal((await records(name)).length, 3);
      await cache.flush();
      t.equal((await (await t.open({ name })).stats()).entries, 3);
    }
  },

  "entries() lists all entries after an aborted transaction": async (t) => {
    for (const isLost of [false, true]) {
      const name = t.database();
      let cache = await t.open({ name });
      await cache.putMany([..."abcde"].map((key) => [key, key]));
      await cache.close();
      if (isLost) await rewrite(name, () => undefined, "log");
      cache = await t.open({ name });
      for (let round = 0; round < 3; round += 1) {
        const failed = failNextCommit(t);
        const listed = [cache.entries(), cache.entries()];
        for (const each of listed) t.equal((await each).length, 5, `round ${round}, ${isLost}`);
        t.equal((await cache.explain(t.warmstart.key("k", 1, { a: 1 }))).hit, false);
        t.equal(await cache.verify(), []);
        await failed;
        t.equal((await cache.entries()).length, 5);
        t.equal((await cache.stats()).entries, 5);
      }
    }
  },

  "a rebuild that fails in the sweep of pieces is repeated": async (t) => {
    const cache = await t.open();
    const other = await t.open({ name: cache.name });
    await cache.putMany([..."abc"].map((key) => [key, key]));
    const { setTimeout } = globalThis;
    let sweep;
    globalThis.setTimeout = (work, ms, ...more) => (ms === undefined ? (sweep = work) : setTimeout(work, ms, ...more));
    t.after(() => (globalThis.setTimeout = setTimeout));
    t.equal((await cache.stats()).entries, 3);
    globalThis.setTimeout = setTimeout;
    await other.put("d", "d");
    await rewrite(cache.name, (row) => (JSON.stringify(row).includes('"d"') ? "no row" : row), "log");

    const { getAllKeys } = IDBObjectStore.prototype;
    t.after(() => (IDBObjectStore.prototype.getAllKeys = getAllKeys));
    let failures = 0;
    IDBObjectStore.prototype.getAllKeys = function (...range) {
      if (this.name !== "values") return getAllKeys.apply(this, range);
      failures += 1;
      throw new DOMException("made to fail", "UnknownError");
    };
    sweep();
    while (failures < 2) await t.sleep(1);
    IDBObjectStore.prototype.getAllKeys = getAllKeys;
    t.equal((await cache.stats()).entries, 4);
  },

  "closing or deleting the database ends a loop of reads": async (t) => {
    for (let round = 0; round < 20; round += 1) {
      const name = t.database();
      const cache = await t.open({ name });
      await cache.putMany([..."abc"].map((key) => [key, key]));
      let [gets, reads] = [0, 0];
      const wrong = [];
      let isClosed = false;
      let isOver = false;
      const loop = async (kind) => {
        for (let at = 0; !isOver && reads < 20_000; at += 1) {
          const key = "abcd"[at % 4];
          const wasClosed = isClosed;
          reads += 1;
          if (kind === "has") await cache.has(key);
          else {
            gets += 1;
            const value = await cache.get(key, "text");
            if (value !== undefined && (wasClosed || value !== key)) wrong.push([key, value, wasClosed]);
          }
          // Look-ups of a closed cache need no task.
          if (wasClosed) await t.sleep(0);
        }
      };
      const loops = [loop("get"), loop("has"), loop("get")];
      await t.sleep(round * 2);
      if (round % 2) {
        await gone(name);
        t.equal(await cache.put("a", "a"), true);
        t.equal(await cache.get("a", "text"), "a");
        gets += 1;
      }
      await cache.close();
      isClosed = true;
      await gone(name);
      await t.sleep(10);
      isOver = true;
      await Promise.all(loops);
      const { hits, misses } = cache.core.counters;
      t.equal(hits + Object.values(misses).reduce((sum, count) => sum + count, 0), gets);
      t.equal(wrong, []);
      t.ok(misses.closed > 0);
    }
  },

  "getMany counts each look-up once if a request throws": async (t) => {
    for (const isContinued of [false, true]) {
      const cache = await t.open();
      await cache.putMany([..."abc"].map((key) => [key, key]));
      await t.sleep(50);
      const { get } = IDBObjectStore.prototype;
      t.after(() => (IDBObjectStore.prototype.get = get));
      if (isContinued) await cache.get("a");
      const before = cache.core.counters.hits;
      let calls = 0;
      IDBObjectStore.prototype.get = function (key) {
        if ((calls += 1) === 2) throw new DOMException("made to fail", "UnknownError");
        return get.call(this, key);
      };
      await cache.getMany([..."abc"], "text");
      await t.sleep(50);
      IDBObjectStore.prototype.get = get;
      const { hits, misses } = await cache.stats();
      const missed = Object.values(misses).reduce((sum, count) => sum + count, 0);
      t.equal(hits - before + missed, 3, `continued: ${isContinued}: ${hits - before} hits, ${JSON.stringify(misses)}`);
    }
  },
};
