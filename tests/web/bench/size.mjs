// How large the wasm module is that every visitor downloads.

import { gzipSync } from "node:zlib";

import { figure } from "./rows.mjs";

const RAW = 64 << 10;
const GZIPPED = 28 << 10;

export async function size() {
  const { default: hex } = await import("../../../wasm/npm/engine/wasm.js");
  const module = Buffer.from(hex, "hex");
  return [
    figure("wasm/size", { samples: [module.length], unit: "bytes", bound: RAW }),
    figure("wasm/size/gzipped", { samples: [gzipSync(module, { level: 9 }).length], unit: "bytes", bound: GZIPPED }),
  ];
}
