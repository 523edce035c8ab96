// The demo's site, built once for all cases that open it, and served by the server that `npm run demo` starts.

import { execFile } from "node:child_process";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { ROOT } from "./site.mjs";

const DEMO = path.join(ROOT, "web-demo");

let built;

/**
 * Puts the demo at /demo/ of a case's server, over the package that is tested. Resolves to the address of its page.
 * `onRequest` receives every request for it.
 */
export async function mountDemo(t, onRequest = () => undefined) {
  built ??= build();
  const answer = await built;
  t.server.mount("/demo/", (request, response) => {
    onRequest(request);
    request.url = request.url.slice("/demo".length);
    answer(request, response);
  });
  return t.server.url("/demo/index.html");
}

/** Counts the requests for cached files: the model's and the runtime. */
export function requestsForKept(t) {
  return t.server.requests("/demo/models/") + t.server.requests("/demo/runtime/");
}

async function build() {
  const { npm_execpath: npm, WARMSTART_PACKAGE = path.join(ROOT, "wasm/npm") } = process.env;
  const [program, first] = npm ? [process.execPath, [npm]] : ["npm", []];
  const env = { ...process.env, WARMSTART_PACKAGE };
  await promisify(execFile)(program, [...first, "run", "build"], { cwd: DEMO, env });
  return (await import(pathToFileURL(path.join(DEMO, "tools/serve.mjs")).href)).answer;
}
