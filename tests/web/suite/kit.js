// The tests' own tools: a server with faults, and assertions that detect differences.

import { bytes as made } from "/tests/web/bytes.js";

export const tests = {
  "equal sees what differs": async (t) => {
    t.equal({ a: [1, new Uint8Array([1, 2])] }, { a: [1, new Uint8Array([1, 2])] });
    for (const [one, other] of [
      [1, 2],
      [null, undefined],
      [[1], [1, 2]],
      [{}, { a: 1 }],
      [new Uint8Array([1]), new Uint8Array([2])],
      [new Uint8Array([1]), [1]],
    ]) {
      await t.rejects(async () => t.equal(one, other));
    }
  },
  "rejects wants a rejection with the code": async (t) => {
    const coded = () => Promise.reject(Object.assign(new Error("no"), { code: "one" }));
    t.equal((await t.rejects(coded, "one")).message, "no");
    await t.rejects(t.rejects(coded, "other"));
    await t.rejects(t.rejects(Promise.resolve(1), "one"));
  },
  "bytes are the same from wherever they begin": async (t) => {
    const whole = made(1000, 7);
    for (const [start, length] of [[0, 1], [1, 5], [3, 997], [4, 8], [999, 1], [10, 0]]) {
      t.equal(made(length, 7, start), whole.subarray(start, start + length), `${start}`);
    }
    t.ok(made(1000, 8).some((byte, at) => byte !== whole[at]), "another seed");
    t.ok(new Set(whole).size > 200, "they vary");
  },
  "a range is sent only of what it was asked of": async (t) => {
    const url = t.url("/faults/bytes?size=100&seed=1&etag=a");
    const ask = async (headers, more = "") => {
      const response = await fetch(url + more, { headers });
      return [response.status, new Uint8Array(await response.arrayBuffer())];
    };
    const [whole, tail] = [made(100, 1), made(60, 1, 40)];
    t.equal(await ask({}), [200, whole]);
    t.equal(await ask({ range: "bytes=40-" }), [206, tail]);
    t.equal(await ask({ range: "bytes=40-", "if-range": '"a"' }), [206, tail]);
    t.equal(await ask({ range: "bytes=40-", "if-range": '"b"' }), [200, whole]);
    t.equal(await ask({ range: "bytes=40-", "if-range": 'W/"a"' }, "&weak=1"), [200, whole]);
    t.equal((await ask({ range: "bytes=100-" }))[0], 416);
    t.equal(await ask({ range: "bytes=40-" }, "&noRange=1"), [200, whole]);
    t.equal(await ask({}, "&redirect=1"), [200, whole]);
  },
  "a connection is cut the first time only": async (t) => {
    const url = t.url(`/faults/bytes?size=300000&cut=100000&tag=${crypto.randomUUID()}`);
    await t.rejects(async () => (await fetch(url)).arrayBuffer(), "TypeError");
    t.equal(new Uint8Array(await (await fetch(url)).arrayBuffer()), made(300000));
    t.equal((await t.counts())[url.slice(t.url("/").length - 1)], 2, "requests are counted");
  },
  "statuses, pages and answers of unknown length": async (t) => {
    t.equal((await fetch("/faults/bytes?status=404")).status, 404);
    const once = `/faults/bytes?size=1&fail=1&tag=${crypto.randomUUID()}`;
    t.equal([(await fetch(once)).status, (await fetch(once)).status], [503, 200]);
    const page = await fetch("/faults/html");
    t.equal([page.status, page.headers.get("content-type")], [200, "text/html; charset=utf-8"]);
    const unknown = await fetch("/faults/bytes?size=10&noLength=1");
    t.equal([unknown.headers.get("content-length"), (await unknown.arrayBuffer()).byteLength], [null, 10]);
  },
};
