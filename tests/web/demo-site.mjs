// The demo's site, built once for all cases that open it.

import path from "node:path";

import { build } from "../../web-demo/tools/build.mjs";
import { ROOT } from "./site.mjs";

let built;

/**
 * Puts the demo at /demo/ of a case's server, over the package that is tested. Resolves to the address of its
 * page.
 */
export async function mountDemo(t) {
  built ??= build({ packageFolder: process.env.WARMSTART_PACKAGE ?? path.join(ROOT, "wasm/npm") });
  t.server.mount("/demo/", await built);
  return t.server.url("/demo/index.html");
}

/** Counts the requests for cached files: the model's and the runtime. */
export function requestsForKept(t) {
  return (
    t.server.requests("/demo/models/") +
    [...t.server.counts.keys()].filter((url) => /\/runtime\./.test(url)).length
  );
}
