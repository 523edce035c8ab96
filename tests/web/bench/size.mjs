// How large the wasm module is that every visitor downloads, and what the package adds to a bundle.

import path from "node:path";
import { gzipSync } from "node:zlib";

import { build } from "vite";

import { figure } from "./rows.mjs";
import { ROOT } from "../site.mjs";

const RAW = 64 << 10;
const GZIPPED = 28 << 10;
const BUNDLED = 45_000;

export async function size() {
  const { default: hex } = await import("../../../wasm/npm/engine/wasm.js");
  const module = Buffer.from(hex, "hex");
  return [
    figure("wasm/size", { samples: [module.length], unit: "bytes", bound: RAW }),
    figure("wasm/size/gzipped", { samples: [gzipped(module)], unit: "bytes", bound: GZIPPED }),
    figure("bundle/open/gzipped", { samples: [await bundled()], unit: "bytes", bound: BUNDLED }),
  ];
}

/** What `import { open } from "warmstart"` brings, bundled by Vite, the wasm module in it. */
async function bundled() {
  const entry = "\0entry";
  const virtual = {
    name: "entry",
    resolveId: (id) => (id === "entry" ? entry : undefined),
    load: (id) => (id === entry ? 'import { open } from "warmstart"; globalThis.open = open;' : undefined),
  };
  const { output } = await build({
    configFile: false,
    logLevel: "error",
    root: path.join(ROOT, "tests/web"),
    plugins: [virtual],
    resolve: { alias: { warmstart: path.join(ROOT, "wasm/npm/dist/index.js") } },
    build: { write: false, target: "es2022", modulePreload: { polyfill: false }, rollupOptions: { input: "entry" } },
  });
  const { default: encoded } = await import("../../../wasm/npm/engine/wasm.js");
  if (!output.some(({ code }) => code.includes(encoded))) throw new Error("the bundle has no wasm module");
  return output.reduce((sum, { code }) => sum + gzipped(code), 0);
}

function gzipped(contents) {
  return gzipSync(contents, { level: 9 }).length;
}
