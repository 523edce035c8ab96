// Serves a folder with the right types and ranges, and without HTTP caching, so that what is fast on the second
// visit comes from warmstart and not from the browser's HTTP cache.

import { once } from "node:events";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".onnx": "application/octet-stream",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/**
 * Serves `folder` on localhost. Every request that was answered is counted by its path in `counts`.
 *
 * @param {string} folder
 * @param {{ port?: number, mbit?: number }} options `port` 0 takes any free one; `mbit` limits the rate of
 *   all responses together, in megabits a second
 * @returns {Promise<{ url: string, counts: Map<string, number>, close(): Promise<void> }>}
 */
export async function serve(folder, { port = 0, mbit } = {}) {
  const counts = new Map();
  const pace = mbit === undefined ? undefined : pacer((mbit * 1e6) / 8);
  const server = createServer((request, response) => {
    answer(folder, request, response, counts, pace).catch((error) => {
      if (!response.headersSent) response.writeHead(500);
      response.end();
      if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") console.error(`${request.url}: ${error.message}`);
    });
  });
  await listen(server, port);
  return {
    url: `http://localhost:${server.address().port}/`,
    counts,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

async function answer(folder, request, response, counts, pace) {
  const pathname = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
  counts.set(pathname, (counts.get(pathname) ?? 0) + 1);
  const file = path.join(folder, pathname.endsWith("/") ? `${pathname}index.html` : pathname);
  const inside = file.startsWith(path.resolve(folder) + path.sep);
  const found = inside ? await stat(file).catch(() => undefined) : undefined;
  if (!["GET", "HEAD"].includes(request.method)) return end(response, 405, { allow: "GET, HEAD" });
  if (!found?.isFile()) return end(response, 404, {});
  const etag = `"${found.size.toString(16)}-${Math.trunc(found.mtimeMs).toString(16)}"`;
  const headers = {
    "content-type": TYPES[path.extname(file)] ?? "application/octet-stream",
    "accept-ranges": "bytes",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    etag,
  };
  const wanted = range(request.headers, found.size, etag);
  if (wanted === "unsatisfiable")
    return end(response, 416, { ...headers, "content-range": `bytes */${found.size}` });
  const [first, last] = wanted ?? [0, found.size - 1];
  headers["content-length"] = last - first + 1;
  if (wanted) headers["content-range"] = `bytes ${first}-${last}/${found.size}`;
  response.writeHead(wanted ? 206 : 200, headers);
  if (request.method === "HEAD" || found.size === 0) return response.end();
  await send(createReadStream(file, { start: first, end: last }), response, pace);
}

function end(response, status, headers) {
  response.writeHead(status, { "content-length": 0, ...headers }).end();
}

/** Returns the requested range if there is exactly one; several ranges get the whole file. */
function range(headers, size, etag) {
  const asked = /^bytes=(\d*)-(\d*)$/.exec(headers.range ?? "");
  if (!asked || (asked[1] === "" && asked[2] === "")) return undefined;
  if (headers["if-range"] !== undefined && headers["if-range"] !== etag) return undefined;
  const suffix = asked[1] === "";
  const first = suffix ? Math.max(0, size - Number(asked[2])) : Number(asked[1]);
  const last = suffix || asked[2] === "" ? size - 1 : Math.min(Number(asked[2]), size - 1);
  return first > last ? "unsatisfiable" : [first, last];
}

async function send(stream, response, pace) {
  for await (const chunk of stream) {
    if (pace) await pace(chunk.length);
    if (response.destroyed) return;
    if (!response.write(chunk)) await drained(response);
  }
  response.end();
}

/** Waits until more can be written, or the visitor has disconnected. */
async function drained(response) {
  const stop = new AbortController();
  const { signal } = stop;
  await Promise.race([once(response, "drain", { signal }), once(response, "close", { signal })]);
  stop.abort();
}

/** Waits until this number of bytes may be sent. */
function pacer(bytesPerSecond) {
  let free = 0;
  return async (bytes) => {
    const now = performance.now();
    const begin = Math.max(now, free);
    free = begin + (bytes / bytesPerSecond) * 1000;
    if (free - now > 1) await sleep(free - now);
  };
}

async function listen(server, port) {
  for (let tried = port; ; tried++) {
    try {
      return await new Promise((resolve, reject) => {
        server.once("error", reject).listen(tried, "localhost", resolve);
      });
    } catch (error) {
      if (error.code !== "EADDRINUSE" || tried >= port + 20) throw error;
    } finally {
      server.removeAllListeners("error");
    }
  }
}
