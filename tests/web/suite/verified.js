// A value that other code damaged is never returned.

const MIB = 1024 * 1024;

/** Calls `change` with the stored record of a key, and stores the result. */
async function tamper(name, change) {
  const database = await new Promise((resolve, reject) => {
    const request = indexedDB.open(`warmstart:${name}`);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const read = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const entries = () => database.transaction("values", "readwrite").objectStore("values");
  const [key] = await read(entries().getAllKeys());
  const changed = await change(await read(entries().get(key)));
  await read(entries().put(changed, key));
  database.close();
}

/** Flips a bit of a large value's payload. */
const flipped = (at) => async (record) => {
  const whole = new Uint8Array(await new Blob(record.b).arrayBuffer());
  whole[at] ^= 1;
  const asBlob = record.b[0] instanceof Blob;
  return { ...record, b: [asBlob ? new Blob([whole]) : whole.buffer] };
};

async function damaged(t, size, at) {
  const name = t.database();
  const cache = await t.open({ name });
  await cache.put("large", t.bytes(size, 1));
  await tamper(name, flipped(at));
  return cache;
}

export const modes = ["default", "sqlite"];

export const tests = {
  "a damaged large value is a miss with its reason, and is gone": async (t) => {
    for (const as of ["bytes", "blob", "text"]) {
      const cache = await damaged(t, 6 * MIB, 5 * MIB);
      const missed = [];
      cache.events.on("miss", ({ text, reason }) => missed.push([text, reason]));
      t.equal(await cache.get("large", as), undefined, as);
      t.equal(missed, [["large", "checksum_mismatch"]]);
      t.equal((await cache.stats()).misses.checksum_mismatch, 1);
      t.equal((await cache.stats()).hits, 0);
      t.equal(await cache.has("large"), false);
    }
  },

  "a damaged body fails before its last chunk, and is gone": async (t) => {
    const size = 9 * MIB;
    const cache = await damaged(t, size, 0);
    const response = await cache.get("large", "response");
    let arrived = 0;
    const error = await t.rejects(async () => {
      for await (const chunk of response.body) arrived += chunk.length;
    }, "damaged");
    t.ok(error instanceof t.warmstart.WarmstartError);
    t.ok(arrived < size, "the last chunk is withheld");
    t.equal(await cache.get("large"), undefined);
    t.equal((await cache.stats()).misses.checksum_mismatch, 1);
  },

  "a value in one chunk is withheld whole": async (t) => {
    const cache = await damaged(t, 100_000, 99_999);
    const reader = (await cache.get("large", "response")).body.getReader();
    await t.rejects(reader.read(), "damaged");
  },

  "nothing is read before the caller reads the body": async (t) => {
    const cache = await damaged(t, 100_000, 7);
    for (let n = 0; n < 3; n++)
      t.equal((await cache.get("large", "response")).headers.get("content-length"), "100000");
    await t.sleep(50);
    t.ok(await cache.has("large"), "no look-up has found the damage yet");
    t.equal((await cache.stats()).hits, 0, "a use is counted when a body was read");
  },

  "getOrCreate replaces a damaged value by building it again": async (t) => {
    for (const as of ["bytes", "blob", "response"]) {
      const cache = await damaged(t, 3 * MIB, 17);
      const fresh = t.bytes(3 * MIB, 2);
      const got = await cache.getOrCreate("large", () => fresh.slice(), { as });
      const bytes = got instanceof Uint8Array ? got : new Uint8Array(await got.arrayBuffer());
      t.equal(bytes, fresh, as);
      t.equal(await cache.get("large"), fresh, as);
    }
  },

  "a body can be cancelled, and the value stays": async (t) => {
    const cache = await t.open();
    await cache.put("large", t.bytes(9 * MIB));
    const reader = (await cache.get("large", "response")).body.getReader();
    t.ok((await reader.read()).value.length > 0);
    await reader.cancel();
    const untouched = await cache.get("large", "response");
    await untouched.body.cancel();
    t.equal((await cache.get("large")).length, 9 * MIB);
  },

  "verify finds and removes damage": async (t) => {
    const cache = await damaged(t, 200_000, 100);
    const found = await cache.verify();
    t.equal(
      found.map(({ key, reason }) => [new TextDecoder().decode(key), reason]),
      [["large", "checksum_mismatch"]],
    );
    t.equal(await cache.verify(), []);
    t.equal(await cache.has("large"), false);
  },
};
