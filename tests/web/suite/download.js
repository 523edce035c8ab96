// Downloads: which are cached, which are not, and how interrupted ones resume.

const MIB = 1 << 20;

/** The original `fetch`, which tests may replace. */
const network = globalThis.fetch.bind(globalThis);

/** A file of the server that no other test asks for. */
function file(t, options) {
  const search = new URLSearchParams({ size: 100_000, seed: 7, id: crypto.randomUUID(), ...options });
  return t.url(`/faults/bytes?${search}`);
}

/** Every request from here on: its address, its range and how it was answered. `answer` may answer in the server's place. */
function watched(t, answer = network) {
  const seen = [];
    globalThis.fetch = async (...given) => {
    const request = new Request(...given);
    const { headers, url } = request;
    const asked = { url, range: headers.get("range") ?? undefined, ifRange: headers.get("if-range") ?? undefined };
    seen.push(asked);
    const response = await answer(request);
    asked.status = response.status;
    return response;
  };
  t.after(() => (globalThis.fetch = network));
  return seen;
}

async function sha(bytes, bits = 256) {
  const digest = new Uint8Array(await crypto.subtle.digest(`SHA-${bits}`, bytes));
  return `sha${bits}-${btoa(String.fromCharCode(...digest))}`;
}

/** Downloads this number of bytes, aborts, and waits until they are kept. */
async function interrupted(t, cache, url, at, options = {}) {
  const stop = new AbortController();
  const onProgress = ({ loaded }) => loaded >= at && stop.abort();
  await t.rejects(t.warmstart.download(cache, url, { ...options, onProgress, signal: stop.signal }), "AbortError");
  await keptPart(t, cache);
}

async function keptPart(t, cache, wanted = true) {
  for (let tries = 0; tries < 200; tries += 1) {
    const entries = await cache.entries();
    if (entries.some(({ text }) => text.startsWith("warmstart.part ")) === wanted) return;
    await t.sleep(20);
  }
  throw new Error(wanted ? "no part was kept" : "a part is still kept");
}

const texts = async (cache) => (await cache.entries()).map(({ text }) => text);

export const tests = {
  "a file is requested once, and then read from the cache": async (t) => {
    const url = file(t);
    const seen = watched(t);
    const name = t.database();
    const cache = await t.open({ name });
    t.equal(await t.warmstart.download(cache, url), t.bytes(100_000, 7));
    t.equal(await t.warmstart.download(cache, url), t.bytes(100_000, 7));
    await cache.close();
    const later = await t.open({ name });
    t.equal(await t.warmstart.download(later, url), t.bytes(100_000, 7), "after closing");
    t.equal(seen.length, 1);
  },

  "several files come at a time, and their progress is added up": async (t) => {
    const cache = await t.open();
    const urls = [1, 2, 3, 4, 5].map((seed) => file(t, { seed, size: 200_000, slow: 2_000_000 }));
    const told = [];
    let [now, most] = [0, 0];
    watched(t, async (request) => {
      most = Math.max(most, (now += 1));
      const response = await network(request);
      const body = await response.arrayBuffer();
      now -= 1;
      return new Response(body, response);
    });
    const options = { parallel: 3, onProgress: (progress) => told.push(progress) };
    const sources = urls.map((url) => ({ url, size: 200_000 }));
    const values = await t.warmstart.download(cache, sources, options);
    t.equal(values, [1, 2, 3, 4, 5].map((seed) => t.bytes(200_000, seed)));
    t.equal(most, 3, "files at a time");
    t.ok(told.every(({ total }) => total === 1_000_000), "the total is known from the start");
    t.ok(told.every(({ loaded }, index) => index === 0 || loaded >= told[index - 1].loaded), "progress goes forward");
    t.equal(told.at(-1).loaded, 1_000_000);
    t.equal(new Set(told.map(({ url }) => url)).size, 5);
  },

  "a cached file counts as progress and is not requested": async (t) => {
    const cache = await t.open();
    const [first, second] = [file(t, { seed: 1 }), file(t, { seed: 2 })];
    await t.warmstart.download(cache, first);
    const seen = watched(t);
    const told = [];
    await t.warmstart.download(cache, [first, second], { onProgress: (progress) => told.push(progress) });
    t.equal(seen.map(({ url }) => url), [second]);
    const { loaded, total } = told.at(-1);
    t.equal([loaded, total], [200_000, 200_000]);
  },

  "a broken connection is resumed within the download": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 300_000, cut: 120_000, slow: 1_000_000 });
    const seen = watched(t);
    t.equal(await t.warmstart.download(cache, url), t.bytes(300_000, 7));
    t.equal(seen.map(({ status }) => status), [200, 206]);
    const at = Number(/^bytes=(\d+)-$/.exec(seen[1].range)?.[1]);
    t.ok(at > 0 && at <= 120_000, `the second request begins at ${at}`);
    t.equal(seen[1].ifRange, '"300000-7"');
    t.equal(await texts(cache), [url], "no part is left");
  },

  "a broken connection without a length is resumed": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 300_000, cut: 120_000, slow: 1_000_000, noLength: 1 });
    const seen = watched(t);
    t.equal(await t.warmstart.download(cache, url), t.bytes(300_000, 7));
    t.equal(seen.map(({ status }) => status), [200, 206]);
  },

  "an aborted download goes on at the next visit where it ended": async (t) => {
    const name = t.database();
    const cache = await t.open({ name });
    const url = file(t, { size: 2 * MIB, slow: 4 * MIB });
    await interrupted(t, cache, url, MIB);
    t.equal(await cache.get(url), undefined, "half a file is no hit");
    await cache.close();
    const later = await t.open({ name });
    const seen = watched(t);
    const told = [];
    const value = await t.warmstart.download(later, url, { onProgress: ({ loaded }) => told.push(loaded) });
    t.equal(value, t.bytes(2 * MIB, 7));
    t.equal(seen.map(({ status }) => status), [206]);
    t.ok(Number(/^bytes=(\d+)-$/.exec(seen[0].range)[1]) >= MIB, "only the rest is asked for");
    t.ok(told[0] >= MIB, "progress begins with what is there");
    t.equal(await texts(later), [url], "no part is left");
  },

  "pieces are stored while more bytes arrive": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 20 * MIB, slow: 16 * MIB });
    const stop = new AbortController();
    const arriving = t.warmstart.download(cache, url, { signal: stop.signal });
    arriving.catch(() => undefined);
    await keptPart(t, cache);
    const pieces = (await cache.entries()).filter(({ text }) => text.startsWith("warmstart.part "));
    // A machine that has much else to do looks when there are two.
    t.ok(pieces.length > 0 && pieces.length <= 2, `${pieces.length} pieces`);
    for (const { size } of pieces) t.ok(size >= 8 * MIB && size < 9 * MIB, `a piece of ${size} bytes`);
    stop.abort();
    await t.rejects(arriving, "AbortError");
  },

  "a file that changed meanwhile starts again": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 2 * MIB, slow: 4 * MIB, etag: "one" });
    await interrupted(t, cache, url, MIB);
    const changed = file(t, { size: 2 * MIB, seed: 8, etag: "two" });
    const seen = watched(t, (request) => network(changed, { headers: request.headers }));
    t.equal(await t.warmstart.download(cache, url), t.bytes(2 * MIB, 8));
    t.equal(seen.map(({ status, ifRange }) => [status, ifRange]), [[200, '"one"']]);
    t.equal(await texts(cache), [url], "no part is left");
  },

  "a 206 of another version or offset is refused": async (t) => {
    for (const wrong of [{ etag: '"other"' }, { "content-range": "bytes 5-2097151/2097152" }]) {
      const cache = await t.open();
      const url = file(t, { size: 2 * MIB, slow: 4 * MIB, etag: "one" });
      await interrupted(t, cache, url, MIB);
      const seen = watched(t, async (request) => {
        const response = await network(request);
        if (response.status !== 206) return response;
        const headers = new Headers(response.headers);
        for (const [name, value] of Object.entries(wrong)) headers.set(name, value);
        return new Response(response.body, { status: 206, headers });
      });
      t.equal(await t.warmstart.download(cache, url), t.bytes(2 * MIB, 7));
      t.equal(seen.map(({ status, range }) => [status, range !== undefined]), [[206, true], [200, false]]);
    }
  },

  "412 and 416 restart the download": async (t) => {
    for (const status of [412, 416]) {
      const cache = await t.open();
      const url = file(t, { size: 2 * MIB, slow: 4 * MIB });
      await interrupted(t, cache, url, MIB);
      const seen = watched(t, (request) =>
        request.headers.has("range") ? new Response("no", { status }) : network(request),
      );
      t.equal(await t.warmstart.download(cache, url), t.bytes(2 * MIB, 7));
      t.equal(seen.map((each) => each.status), [status, 200]);
    }
  },

  "without ranges the whole file is requested": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 300_000, cut: 120_000, slow: 1_000_000, noRange: 1 });
    const seen = watched(t);
    t.equal(await t.warmstart.download(cache, url), t.bytes(300_000, 7));
    t.equal(seen.map(({ status }) => status), [200, 200]);
  },

  "a file with a weak tag is not resumed": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 300_000, cut: 120_000, slow: 1_000_000, weak: 1 });
    const seen = watched(t);
    t.equal(await t.warmstart.download(cache, url), t.bytes(300_000, 7));
    t.equal(seen.map(({ range }) => range), [undefined, undefined]);
    const slow = file(t, { size: 2 * MIB, slow: 4 * MIB, weak: 1 });
    const stop = new AbortController();
    const onProgress = ({ loaded }) => loaded >= MIB && stop.abort();
    await t.rejects(t.warmstart.download(cache, slow, { onProgress, signal: stop.signal }), "AbortError");
    await t.sleep(300);
    t.equal(await texts(cache), [url]);
  },

  "everything from a damaged piece on is requested again": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 2 * MIB, slow: 4 * MIB });
    await interrupted(t, cache, url, MIB);
    const piece = (await cache.entries()).find(({ text }) => text.startsWith("warmstart.part "));
    await cache.delete(piece.key);
    t.equal(await t.warmstart.download(cache, url), t.bytes(2 * MIB, 7));
    t.equal(await texts(cache), [url], "no part is left");
  },

  "a piece of another version or offset is not appended": async (t) => {
    for (const wrong of [{ version: '"other"' }, { start: 5 }]) {
      const cache = await t.open();
      const url = file(t, { size: 2 * MIB, slow: 4 * MIB });
      await interrupted(t, cache, url, MIB);
      const first = await cache.get(`warmstart.part 0 ${url}`, "response");
      const about = JSON.parse(first.headers.get("x-warmstart-part"));
      const { size: start } = await first.blob();
      const second = { ...about, start, ...wrong };
      await cache.put(`warmstart.part 1 ${url}`, t.bytes(100, 1), { headers: { "x-warmstart-part": JSON.stringify(second) } });
      const seen = watched(t);
      t.equal(await t.warmstart.download(cache, url), t.bytes(2 * MIB, 7));
      t.equal(seen.map(({ range }) => range), [`bytes=${start}-`]);
      t.equal(await texts(cache), [url], "no part is left");
    }
  },

  "404 is an error that is neither retried nor stored": async (t) => {
    const cache = await t.open();
    const url = file(t, { status: 404 });
    const seen = watched(t);
    const error = await t.rejects(t.warmstart.download(cache, url), "http_error");
    t.equal([error.status, error.url, error instanceof t.warmstart.WarmstartError], [404, url, true]);
    t.equal(seen.length, 1);
    t.equal(await texts(cache), []);
  },

  "503 is tried again, and no more than twice": async (t) => {
    const cache = await t.open();
    const seen = watched(t);
    t.equal(await t.warmstart.download(cache, file(t, { fail: 2 })), t.bytes(100_000, 7));
    t.equal(seen.map(({ status }) => status), [503, 503, 200]);
    const error = await t.rejects(t.warmstart.download(cache, file(t, { fail: 9 })), "http_error");
    t.equal([error.status, seen.length], [503, 6]);
  },

  "a network that is away is an error after three tries": async (t) => {
    const cache = await t.open();
    const seen = watched(t, () => Promise.reject(new TypeError("Failed to fetch")));
    const error = await t.rejects(t.warmstart.download(cache, file(t)), "network");
    t.equal([seen.length, error.cause.name], [3, "TypeError"]);
  },

  "an HTML page in place of a file is refused": async (t) => {
    const cache = await t.open();
    const url = t.url("/faults/html");
    const seen = watched(t);
    await t.rejects(t.warmstart.download(cache, url), "unexpected_html");
    t.equal([seen.length, await texts(cache)], [1, []]);
  },

  "a body that is shorter than announced is refused": async (t) => {
    const cache = await t.open();
    const answer = () => new Response(t.bytes(500), { headers: { "content-length": "1000" } });
    const seen = watched(t, answer);
    const error = await t.rejects(t.warmstart.download(cache, file(t)), "truncated");
    t.ok(error.message.includes("500 of 1000 bytes"), error.message);
    t.equal([seen.length, await texts(cache)], [3, []]);
  },

  "the announced length of an encoded body is ignored": async (t) => {
    const cache = await t.open();
    const hidden = { "content-length": "1000" };
    watched(t, (request) => {
      if (!request.url.includes("other")) {
        return new Response(t.bytes(500), { headers: { ...hidden, "content-encoding": "gzip" } });
      }
      return Object.defineProperty(new Response(t.bytes(500), { headers: hidden }), "type", { value: "cors" });
    });
    t.equal(await t.warmstart.download(cache, file(t)), t.bytes(500));
    t.equal(await t.warmstart.download(cache, file(t, { other: 1 })), t.bytes(500), "from another origin");
  },

  "a file of another size is refused before it is read": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 5 * MIB });
    const told = [];
    const onProgress = ({ loaded }) => told.push(loaded);
    await t.rejects(t.warmstart.download(cache, { url, size: 4 * MIB }, { onProgress }), "integrity");
    t.equal([told.at(-1) ?? 0, await texts(cache)], [0, []]);
    t.equal(await t.warmstart.download(cache, { url, size: 5 * MIB }), t.bytes(5 * MIB, 7));
  },

  "a file with the wrong digest is not stored": async (t) => {
    const cache = await t.open();
    const right = t.bytes(100_000, 7);
    const url = file(t);
    const seen = watched(t);
    await t.rejects(t.warmstart.download(cache, { url, integrity: await sha(right.slice(1)) }), "integrity");
    t.equal([await texts(cache), seen.length], [[], 1]);
    for (const bits of [256, 384, 512]) {
      t.equal(await t.warmstart.download(cache, { url, integrity: await sha(right, bits) }), right, `SHA-${bits}`);
    }
    t.equal(seen.length, 2, "another digest of the same bytes is no reason to fetch");
    const all = await Promise.all([256, 384, 512].map((bits) => sha(right, bits)));
    const others = all.map((text) => text.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, ""));
    t.ok(/\w-\w+-/.test(others.join()) && /_/.test(others.join()), "they have letters that differ");
    for (const integrity of others) {
      t.equal(await t.warmstart.download(cache, { url, integrity }), right, "in the other alphabet");
    }
    t.equal(seen.length, 2);
  },

  "a cached file with another digest is fetched again": async (t) => {
    const cache = await t.open();
    const url = file(t);
    await t.warmstart.download(cache, url);
    const newer = file(t, { seed: 8 });
    const seen = watched(t, () => network(newer));
    const integrity = await sha(t.bytes(100_000, 8));
    t.equal(await t.warmstart.download(cache, { url, integrity }), t.bytes(100_000, 8));
    t.equal(await t.warmstart.download(cache, { url, integrity }), t.bytes(100_000, 8));
    t.equal(seen.length, 1);
  },

  "a partial file that does not fit the digest is discarded": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 2 * MIB, slow: 4 * MIB, etag: "same" });
    await interrupted(t, cache, url, MIB);
    const newer = file(t, { size: 2 * MIB, seed: 8, etag: "same" });
    const seen = watched(t, (request) => network(newer, { headers: request.headers }));
    const right = t.bytes(2 * MIB, 8);
    t.equal(await t.warmstart.download(cache, { url, integrity: await sha(right) }), right);
    t.equal(seen.map(({ status }) => status), [206, 200]);
  },

  "a failure stops the other files and keeps their pieces": async (t) => {
    const cache = await t.open();
    const slow = file(t, { size: 4 * MIB, slow: 2 * MIB });
    const error = await t.rejects(t.warmstart.download(cache, [slow, file(t, { status: 404, slow: 1 })]), "http_error");
    t.equal(error.status, 404);
    t.ok(!(await cache.has(slow)), "the other one did not come to its end");
  },

  "an abort before the start makes no request": async (t) => {
    const cache = await t.open();
    const seen = watched(t);
    const signal = AbortSignal.abort(new Error("not now"));
    const error = await t.rejects(t.warmstart.download(cache, file(t), { signal }), "Error");
    t.equal([error.message, seen.length], ["not now", 0]);
  },

  "two downloads of one file are one request": async (t) => {
    const cache = await t.open();
    const url = file(t, { slow: 500_000 });
    const seen = watched(t);
    const told = [0, 0];
    const both = [0, 1].map((which) =>
      t.warmstart.download(cache, url, { onProgress: ({ loaded }) => (told[which] = loaded) }),
    );
    t.equal(await Promise.all(both), [t.bytes(100_000, 7), t.bytes(100_000, 7)]);
    t.equal([seen.length, told], [1, [100_000, 100_000]]);
  },

  "a file comes as it is wanted, with its type, under its key": async (t) => {
    const cache = await t.open();
    watched(t, (request) =>
      request.url.endsWith("json")
        ? new Response('{"layers":12}', { headers: { "content-type": "application/json", etag: '"v1"' } })
        : network(request),
    );
    const config = { url: "/models/config.json#part", key: "config" };
    for (const note of ["from the network", "from the cache"]) {
      const response = await t.warmstart.download(cache, config, { as: "response" });
      t.equal(await response.json(), { layers: 12 }, note);
    }
    const response = await cache.get("config", "response");
    t.equal(response.headers.get("content-type"), "application/json");
    t.equal(response.headers.get("etag"), '"v1"');
    const url = file(t);
    const blob = await t.warmstart.download(cache, url, { as: "blob" });
    t.equal([blob.size, blob.type], [100_000, "application/octet-stream"]);
    const again = await t.warmstart.download(cache, new URL(`${url}#fragment`), { as: "response" });
    t.equal(again.headers.get("content-length"), "100000");
    t.equal(await again.arrayBuffer(), t.bytes(100_000, 7));
    t.equal(await texts(cache), ["config", url]);
  },

  "a file of no bytes is a file": async (t) => {
    const cache = await t.open();
    const url = file(t, { size: 0 });
    const seen = watched(t);
    t.equal((await t.warmstart.download(cache, url)).length, 0);
    t.equal((await t.warmstart.download(cache, url)).length, 0);
    t.equal(seen.length, 1);
  },

  "a file larger than the cache is returned": async (t) => {
    const cache = await t.open({ maxBytes: 50_000 });
    t.equal(await t.warmstart.download(cache, file(t)), t.bytes(100_000, 7));
    t.equal((await cache.stats()).refusals, { oversize: 1 });
  },

  "pieces do not push out the files that are whole": async (t) => {
    const cache = await t.open({ maxBytes: 50 * MIB });
    const urls = [1, 2, 3, 4].map((seed) => file(t, { size: 12 * MIB, seed }));
    await t.warmstart.download(cache, urls, { parallel: 1, as: "blob" });
    t.equal(await texts(cache), urls);
    t.equal((await cache.stats()).evictions, 0);
  },

  "what cannot be downloaded is the caller's mistake": async (t) => {
    const cache = await t.open();
    for (const wrong of ["ftp://example.org/a", "data:,a", { url: undefined }, { url: "/a", size: -1 }]) {
      await t.rejects(t.warmstart.download(cache, wrong), "invalid_argument", JSON.stringify(wrong));
    }
    for (const integrity of ["md5-abc", "sha256-abc sha512-abc"]) {
      await t.rejects(t.warmstart.download(cache, { url: "/a", integrity }), "invalid_argument");
    }
    await t.rejects(t.warmstart.download(cache, "/a", { parallel: 0 }), "invalid_argument");
    t.equal(await t.warmstart.download(cache, []), []);
  },
};
