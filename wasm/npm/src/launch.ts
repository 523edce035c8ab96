import * as glue from "../engine/warmstart_wasm_launch.js";
import hex from "../engine/launch.js";

import { decoded, unsupported } from "./engine.js";

/** The WebAssembly half of the registry and the launch memo: ids, dependencies and generations. */
export type LaunchEngine = typeof glue;

let ready = false;

/** The engine, instantiated at the first use. A bundle that uses neither of them does not contain it. */
export function launchEngine(): LaunchEngine {
  if (ready) return glue;
  try {
    glue.initSync({ module: decoded(hex) });
  } catch (cause) {
    throw unsupported(cause);
  }
  ready = true;
  return glue;
}
