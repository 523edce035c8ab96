// Where things are, and the server over them that pages are opened from.

import { mkdir, mkdtemp } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { serve } from "./server.mjs";

/** The repository. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The folder for the files that a run leaves. */
export const TARGET = path.join(ROOT, "target/web");

/** Serves the built package, the tests, and their npm packages. */
export function site() {
  return serve({
    "/tests/web/": path.join(ROOT, "tests/web"),
    "/tests/scenarios/": path.join(ROOT, "tests/scenarios"),
    "/warmstart/": path.join(ROOT, "wasm/npm"),
    "/node_modules/": path.join(ROOT, "tests/web/node_modules"),
  });
}

/** A new folder, for a profile or for a project: where the environment wants temporary files, else on the disk of the build. */
export async function freshFolder(name) {
  const within = process.env.TMPDIR || TARGET;
  await mkdir(within, { recursive: true });
  return mkdtemp(path.join(within, `${name}-`));
}
