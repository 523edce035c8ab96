// The server of the tests: files, bytes with faults under /faults/, and /counts of every request.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";

import { faulty } from "./faults.mjs";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
};

/**
 * Serves folders: `mounts` maps the beginning of a path, such as "/suite/", to a folder. The longest one that fits is
 * taken. A function in place of a folder answers by itself.
 */
export async function serve(mounts) {
  const counts = new Map();
  const server = createServer((request, response) => {
    answer(request, response, mounts, counts).catch((error) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://localhost:${server.address().port}`;
  return {
    origin,
    counts,
    mount: (prefix, target) => void (mounts[prefix] = target),
    url: (file) => new URL(file, origin).href,
    /** How many requests came for paths that begin so. */
    requests: (prefix) =>
      [...counts].filter(([url]) => url.startsWith(prefix)).reduce((sum, [, count]) => sum + count, 0),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(request, response, mounts, counts) {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname === "/counts") return json(response, Object.fromEntries(counts));
  if (url.pathname === "/counts/reset") {
    counts.clear();
    return json(response, {});
  }
  const seen = counts.get(request.url) ?? 0;
  counts.set(request.url, seen + 1);
  if (url.pathname.startsWith("/faults/")) return faulty(request, response, url, seen);
  const fitting = Object.keys(mounts).filter((prefix) => url.pathname.startsWith(prefix));
  const prefix = fitting.sort((one, other) => other.length - one.length)[0];
  const target = prefix && mounts[prefix];
  if (typeof target === "function") return target(request, response, url);
  return target ? file(request, response, target, url.pathname.slice(prefix.length)) : missing(response);
}

async function file(request, response, folder, name) {
  const at = path.join(folder, path.normalize(`/${decodeURIComponent(name)}`));
  const found = await stat(at).catch(() => undefined);
  if (!found?.isFile()) return missing(response);
  const headers = {
    "content-type": TYPES[path.extname(at)] ?? "application/octet-stream",
    "content-length": found.size,
    "last-modified": found.mtime.toUTCString(),
    // Counted requests must reach the server.
    "cache-control": "no-store",
  };
  response.writeHead(200, headers);
  if (request.method === "HEAD") return void response.end();
  createReadStream(at).on("error", () => response.destroy()).pipe(response);
}

function json(response, value) {
  response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(value));
}

function missing(response) {
  response.writeHead(404, { "content-type": "text/plain", "cache-control": "no-store" });
  response.end("there is no such file");
}
