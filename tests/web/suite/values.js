// The kinds of values, stored and returned.

const MIB = 1024 * 1024;

/** Reads a body chunk by chunk. */
async function chunksOf(response) {
  const chunks = [];
  for await (const chunk of response.body) chunks.push(chunk);
  return chunks;
}

function streamOf(...chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

export const tests = {
  "a miss is undefined in every form": async (t) => {
    const cache = await t.open();
    for (const as of [undefined, "bytes", "blob", "text", "json", "response"]) {
      t.equal(await cache.get("absent", as), undefined, `as ${as}`);
    }
    t.equal(await cache.getMany(["a", "b"], "text"), [undefined, undefined]);
  },

  "every kind of value is returned in every format": async (t) => {
    const cache = await t.open();
    for (const size of [1, 100, 49152, 49153, 5 * MIB + 1]) {
      const bytes = t.bytes(size, size).map((byte) => 97 + (byte % 26));
      const text = new TextDecoder().decode(bytes);
      const padded = new Uint8Array(size + 7);
      padded.set(bytes, 3);
      const values = {
        string: text,
        buffer: bytes.slice().buffer,
        array: bytes.slice(),
        view: new DataView(padded.buffer, 3, size),
        blob: new Blob([bytes]),
        response: new Response(bytes),
        stream: streamOf(bytes.slice(0, size >> 1), bytes.slice(size >> 1)),
      };
      for (const [kind, value] of Object.entries(values)) {
        const name = `${kind} of ${size}`;
        t.ok(await cache.put(name, value), name);
        t.equal(await cache.get(name), bytes, name);
        t.equal(await cache.get(name, "text"), text, name);
        t.equal(await (await cache.get(name, "blob")).arrayBuffer(), bytes.buffer, name);
        t.equal(await (await cache.get(name, "response")).arrayBuffer(), bytes.buffer, name);
      }
    }
  },

  "a value of no bytes is a value": async (t) => {
    const cache = await t.open();
    for (const value of ["", new ArrayBuffer(0), new Blob([]), new Response(null), streamOf()]) {
      t.ok(await cache.put("nothing", value));
      t.equal(await cache.get("nothing"), new Uint8Array(0));
      t.equal(await cache.get("nothing", "text"), "");
      t.equal((await cache.get("nothing", "response")).headers.get("content-length"), "0");
      t.ok(await cache.has("nothing"));
      t.ok(await cache.delete("nothing"));
    }
  },

  "JSON is parsed, and other text is an error": async (t) => {
    const cache = await t.open();
    await cache.put("config", JSON.stringify({ layers: [1, 2] }));
    t.equal(await cache.get("config", "json"), { layers: [1, 2] });
    await cache.put("text", "no JSON");
    await t.rejects(cache.get("text", "json"), "invalid_argument");
  },

  "what the caller does to its buffer after put changes nothing": async (t) => {
    const cache = await t.open();
    for (const size of [1000, 3 * MIB, 32 * MIB]) {
      const mine = t.bytes(size, 5);
      const before = mine.slice();
      const stored = cache.put("mine", mine);
      mine.fill(0);
      await Promise.resolve();
      mine.fill(1);
      t.ok(await stored);
      t.equal(await cache.get("mine"), before, `${size} bytes`);
    }
  },

  "changing 32 MiB after the call changes no stored value": async (t) => {
    const cache = await t.open();
    const mine = t.bytes(32 * MIB, 6);
    const before = mine.slice();
    let stored = false;
    const storing = cache.put("mine", mine).then((did) => (stored = did));
    for (let turn = 0; !stored; turn += 1) {
      mine.fill(turn);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    t.ok(await storing);
    t.equal(await cache.get("mine"), before);
    t.equal(await (await cache.get("mine", "blob")).arrayBuffer(), before.buffer);
    t.equal(await cache.verify(), []);
  },

  "large values that are put at once stay separate": async (t) => {
    const cache = await t.open();
    const sizes = [32 * MIB, 32 * MIB, 5 * MIB, 32 * MIB - 1, 4 * MIB + 1];
    const mine = sizes.map((size, at) => t.bytes(size, at));
    const all = mine.map((bytes, at) => {
      const storing = cache.put(`at once ${at}`, bytes);
      bytes.fill(255);
      return storing;
    });
    t.equal(await Promise.all(all), sizes.map(() => true));
    for (const [at, size] of sizes.entries()) {
      const bytes = t.bytes(size, 10 + at);
      const storing = cache.put(`in turn ${at}`, bytes);
      bytes.fill(255);
      // The same one again takes its place.
      if (at === 2) await cache.put(`in turn ${at}`, t.bytes(size, 10 + at));
      t.ok(await storing);
    }
    for (const [at, size] of sizes.entries()) {
      t.equal(await cache.get(`at once ${at}`), t.bytes(size, at), `at once ${at}`);
      t.equal(await cache.get(`in turn ${at}`), t.bytes(size, 10 + at), `in turn ${at}`);
    }
  },

  "a large value whose put is aborted is not stored": async (t) => {
    const cache = await t.open();
    for (let turn = 0; turn < 3; turn += 1) {
      const controller = new AbortController();
      const outcome = cache.put("mine", t.bytes(32 * MIB, 1), { signal: controller.signal }).then(
        () => "stored",
        (error) => error.name,
      );
      controller.abort();
      t.equal(await outcome, "AbortError");
      t.equal(await cache.has("mine"), false);
      t.ok(await cache.put("mine", t.bytes(32 * MIB, 2)));
      t.equal(await cache.get("mine"), t.bytes(32 * MIB, 2));
      await cache.delete("mine");
    }
  },

  "a returned value shares no memory with the stored one": async (t) => {
    for (const memory of [false, true]) {
      const cache = await t.open({ memory });
      for (const size of [10, 100_000]) {
        await cache.put("value", t.bytes(size, 1));
        (await cache.get("value")).fill(0);
        t.equal(await cache.get("value"), t.bytes(size, 1), `${size} bytes, memory: ${memory}`);
      }
    }
  },

  "a buffer that is handed over is empty at once, and stored": async (t) => {
    const cache = await t.open();
    for (const size of [1000, 100_000, 40 * MIB]) {
      const mine = t.bytes(size, 5);
      const before = mine.slice();
      const stored = cache.put("mine", mine, { transfer: true });
      t.equal(mine.length, 0);
      t.ok(await stored);
      t.equal(await cache.get("mine"), before, `${size} bytes`);
    }
  },

  "a value of 200 MB is put without holding the page": async (t) => {
    const cache = await t.open();
    const mine = new Uint8Array(200e6).fill(7);
    const held = [];
    // On a busy machine all takes longer, so one quiet round is enough.
    for (let round = 0, isHeld = true; isHeld && round < 10; round += 1) {
      let [longest, last] = [0, performance.now()];
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
        port2.postMessage(0);
      };
      port2.postMessage(0);
      t.ok(await cache.put("mine", mine));
      port1.close();
      const begun = performance.now();
      mine.slice();
      const copying = performance.now() - begun;
      isHeld = longest >= Math.max(50, copying / 2);
      held.push(`${longest} of ${copying}`);
      if (!isHeld) held.length = 0;
    }
    t.equal(held, [], "milliseconds for which the page was held, and of a copy");
    t.equal((await cache.entries())[0].size, mine.length);
  },

  "where the browser stores no Blobs, buffers take their place": async (t) => {
    const { put } = IDBObjectStore.prototype;
    t.after(() => (IDBObjectStore.prototype.put = put));
    IDBObjectStore.prototype.put = function (value, ...given) {
      if (value?.b?.some((part) => part instanceof Blob)) throw new DOMException("no Blobs", "DataCloneError");
      return put.call(this, value, ...given);
    };
    const cache = await t.open();
    for (const value of [t.bytes(5 * MIB, 1), new Blob([t.bytes(100_000, 2)]), t.bytes(100_000, 3)]) {
      t.ok(await cache.put("mine", value));
      const bytes = value instanceof Blob ? t.bytes(100_000, 2) : value;
      t.equal(await cache.get("mine"), bytes);
      t.equal(new Uint8Array(await (await cache.get("mine", "response")).arrayBuffer()), bytes);
    }
    t.equal((await cache.stats()).refusals, {});
  },

  "a transferred buffer is refused": async (t) => {
    const cache = await t.open();
    const buffer = new ArrayBuffer(8);
    structuredClone(buffer, { transfer: [buffer] });
    await t.rejects(cache.put("gone", buffer), "invalid_argument");
    t.equal(await cache.has("gone"), false);
  },

  "what is no value is refused with what to do": async (t) => {
    const cache = await t.open();
    for (const value of [undefined, null, 7, { a: 1 }, [1], () => 1]) {
      const error = await t.rejects(cache.put("key", value), "invalid_argument");
      t.ok(error instanceof t.warmstart.WarmstartError);
      t.ok(error.message.includes("JSON.stringify"));
    }
    await t.rejects(cache.put(7, "value"), "invalid_argument");
    await t.rejects(cache.get("key", "bites"), "invalid_argument");
    const bad = new ReadableStream({ start: (controller) => controller.enqueue("text") });
    await t.rejects(cache.put("key", bad), "invalid_argument");
    t.equal(await cache.has("key"), false);
  },

  "a response that is not ok, or partial, is not stored": async (t) => {
    const cache = await t.open();
    for (const status of [206, 301, 404, 500, 503]) {
      const error = await t.rejects(cache.put("page", new Response("sorry", { status })), "http_error");
      t.equal(error.status, status);
    }
    const missing = t.url("/faults/bytes?size=10&seed=1&status=404");
    const error = await t.rejects(
      cache.getOrCreate("page", () => fetch(missing)),
      "http_error",
    );
    t.equal([error.status, error.url], [404, missing]);
    t.equal(await cache.has("page"), false);
  },

  "a body that is shorter than announced is not stored": async (t) => {
    const cache = await t.open();
    const short = () => new Response("abc", { headers: { "content-length": "4" } });
    await t.rejects(cache.put("short", short()), "truncated");
    await t.rejects(cache.getOrCreate("short", short), "truncated");
    const cut = t.url(`/faults/bytes?size=200000&seed=2&cut=100000&name=${t.database()}`);
    await t.rejects(cache.getOrCreate("short", () => fetch(cut)));
    t.equal(await cache.has("short"), false);
    // The announced length may be that of compressed bytes.
    t.ok(await cache.put("longer", new Response("abcde", { headers: { "content-length": "4" } })));
  },

  "a body that was read already is refused": async (t) => {
    const cache = await t.open();
    const response = new Response("once");
    await response.text();
    await t.rejects(cache.put("key", response), "invalid_argument");
    const stream = streamOf(new Uint8Array(1));
    stream.getReader();
    await t.rejects(cache.put("key", stream), "invalid_argument");
  },

  "the headers that say something of the bytes come back": async (t) => {
    const cache = await t.open();
    const headers = {
      "content-type": "application/wasm",
      etag: '"abc"',
      "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT",
      "content-encoding": "identity",
      "content-length": "3",
      "x-secret": "of the connection",
    };
    for (const size of [3, 100_000]) {
      await cache.put(
        "file",
        new Response(t.bytes(size), { headers: { ...headers, "content-length": `${size}` } }),
      );
      const response = await cache.get("file", "response");
      t.equal(response.status, 200);
      t.equal(response.headers.get("content-type"), "application/wasm");
      t.equal(response.headers.get("etag"), '"abc"');
      t.equal(response.headers.get("last-modified"), headers["last-modified"]);
      t.equal(response.headers.get("content-length"), String(size));
      t.equal(response.headers.get("content-encoding"), null);
      t.equal(response.headers.get("x-secret"), null);
      t.equal((await cache.get("file", "blob")).type, "application/wasm");
    }
  },

  "given headers, type and label replace those of the response": async (t) => {
    const cache = await t.open();
    const response = new Response("{}", { headers: { etag: "old", "content-type": "text/plain" } });
    await cache.put("file", response, {
      label: "settings",
      type: "application/json",
      headers: { etag: "new", "x-own": "1" },
    });
    const back = await cache.get("file", "response");
    t.equal([...back.headers].sort(), [
      ["content-length", "2"],
      ["content-type", "application/json"],
      ["etag", "new"],
      ["x-own", "1"],
    ]);
    const [entry] = await cache.entries();
    t.equal([entry.label, entry.type, entry.text, entry.size], ["settings", "application/json", "file", 2]);
    await t.rejects(cache.put("file", "x", { headers: { "bad name": "1" } }), "invalid_argument");
  },

  "a value without a type comes back without one": async (t) => {
    const cache = await t.open();
    for (const size of [5, 100_000]) {
      await cache.put("plain", t.bytes(size));
      t.equal((await cache.get("plain", "response")).headers.get("content-type"), null);
      t.equal((await cache.get("plain", "blob")).type, "");
    }
  },

  "an aborted put stores nothing and passes the reason on": async (t) => {
    const cache = await t.open();
    const before = AbortSignal.abort();
    await t.rejects(cache.put("key", "value", { signal: before }), "AbortError");
    const controller = new AbortController();
    let cancelled;
    const endless = new ReadableStream({
      pull: (stream) => stream.enqueue(new Uint8Array(1000)),
      cancel: (reason) => (cancelled = reason),
    });
    const stored = cache.put("key", endless, { signal: controller.signal });
    await t.sleep(20);
    const reason = new Error("enough");
    controller.abort(reason);
    t.equal(await t.rejects(stored), reason);
    t.equal(cancelled, reason);
    t.equal(await cache.has("key"), false);
  },

  "a large body arrives in several chunks and whole": async (t) => {
    const cache = await t.open();
    const bytes = t.bytes(9 * MIB + 5, 3);
    await cache.put("large", bytes);
    const chunks = await chunksOf(await cache.get("large", "response"));
    t.ok(chunks.length > 1, "more than one chunk");
    t.equal(new Uint8Array(await new Blob(chunks).arrayBuffer()), bytes);
  },

  "a buffer that can be resized is stored as it was": async (t) => {
    if (!("resizable" in ArrayBuffer.prototype)) t.lacking("resizable ArrayBuffer");
    const cache = await t.open();
    for (const size of [100, 60_000, 5 * MIB]) {
      for (const transfer of [false, true]) {
        const bytes = t.bytes(size, 1);
        const buffer = new ArrayBuffer(size, { maxByteLength: 2 * size });
        new Uint8Array(buffer).set(bytes);
        const stored = cache.put("key", buffer, { transfer });
        t.equal(buffer.detached ?? transfer, transfer);
        if (!transfer) buffer.resize(size / 2);
        t.equal([await stored, await cache.get("key")], [true, bytes], `${size} bytes, transfer: ${transfer}`);
      }
    }
  },
};
