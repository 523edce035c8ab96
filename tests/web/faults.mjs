// Faults of servers and networks. README.md describes the options.

import { setTimeout as sleep } from "node:timers/promises";

import { bytes } from "./bytes.js";

/** Sent at a time. */
const PIECE = 64 << 10;

const HTML = "<!doctype html><title>Sign in</title><p>Please sign in to go on.</p>";

/** Answers a request below /faults/. The same URL came `seen` times before. */
export async function faulty(request, response, url, seen) {
  const option = (name) => url.searchParams.get(name);
  const number = (name) => (option(name) === null ? undefined : Number(option(name)));
  if (url.pathname === "/faults/html") return page(response);
  if (url.pathname !== "/faults/bytes") return status(response, 404);
  if (option("hang")) return undefined;
  if (option("redirect")) return redirect(response, url);
  if (seen < (number("fail") ?? 0)) return status(response, 503);
  if (number("status")) return status(response, number("status"));

  const size = number("size") ?? 0;
  const seed = number("seed") ?? 0;
  const tag = `${option("weak") ? "W/" : ""}"${option("etag") ?? `${size}-${seed}`}"`;
  const range = option("noRange") ? undefined : wanted(request, tag, size);
  if (range === "beyond") return status(response, 416, { "content-range": `bytes */${size}` });
  const { start, end } = range ?? { start: 0, end: size };
  const headers = {
    "content-type": option("type") ?? "application/octet-stream",
    "cache-control": "no-store",
    etag: tag,
    ...(option("noRange") ? {} : { "accept-ranges": "bytes" }),
    ...(option("noLength") ? {} : { "content-length": end - start }),
    ...(range ? { "content-range": `bytes ${start}-${end - 1}/${size}` } : {}),
  };
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === "HEAD") return void response.end();
  const cut = seen === 0 ? number("cut") : undefined;
  return send(response, { seed, start, end, stop: cut === undefined ? end : start + cut, slow: number("slow") });
}

async function send(response, { seed, start, end, stop, slow }) {
  const piece = slow ? Math.max(1, Math.min(PIECE, Math.ceil(slow / 20))) : PIECE;
  for (let at = start; at < Math.min(end, stop); at += piece) {
    if (response.destroyed) return;
    const part = bytes(Math.min(piece, Math.min(end, stop) - at), seed, at);
    await new Promise((resolve) => response.write(part, resolve));
    if (slow) await sleep((part.length / slow) * 1000);
  }
  // A connection that ends before its time, not an answer that ends well.
  if (stop < end) response.destroy();
  else response.end();
}

/** The range that is asked for and may be sent, by RFC 9110: a weak tag proves nothing about bytes. */
function wanted(request, tag, size) {
  const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  if (!asked) return undefined;
  const condition = request.headers["if-range"];
  if (condition !== undefined && (condition !== tag || tag.startsWith("W/"))) return undefined;
  const start = Number(asked[1]);
  if (start >= size) return "beyond";
  return { start, end: asked[2] === "" ? size : Math.min(size, Number(asked[2]) + 1) };
}

function redirect(response, url) {
  const to = new URL(url);
  to.searchParams.delete("redirect");
  response.writeHead(302, { location: to.pathname + to.search });
  response.end();
}

function page(response) {
  response.writeHead(200, { "content-type": "text/html; charset=utf-8", "cache-control": "no-store" });
  response.end(HTML);
}

function status(response, code, headers = {}) {
  response.writeHead(code, { "content-type": "text/plain", "cache-control": "no-store", ...headers });
  response.end(`status ${code}`);
}
