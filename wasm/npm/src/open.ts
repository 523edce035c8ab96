import { Cache } from "./cache.js";
import { Core } from "./core.js";
import { loadEngine } from "./engine.js";
import { bound, invalid, type WarmstartError } from "./errors.js";
import { tell } from "./listener.js";
import { Store } from "./store/store.js";
import type { OpenOptions } from "./types.js";

/**
 * Opens a cache. A browser without a usable IndexedDB makes it a cache in memory, with one warning.
 *
 * @throws WarmstartError `invalid_argument` if an option is wrong; `unsupported` if there is no WebAssembly
 *
 * @example
 * const cache = await open({ name: "my-app", maxBytes: 2 * 1024 ** 3 });
 */
export async function open(options: OpenOptions): Promise<Cache> {
  if (
    typeof options !== "object" ||
    options === null ||
    typeof options.name !== "string" ||
    options.name === ""
  ) {
    throw invalid('A cache needs a name: open({ name: "my-app" }).');
  }
  const { name, memory = false, onWarning } = options;
  const maxBytes = bound("maxBytes", options.maxBytes);
  const maxEntries = bound("maxEntries", options.maxEntries);
  if (onWarning !== undefined && typeof onWarning !== "function") throw invalid("onWarning is a function.");
  const engine = await loadEngine();
  const store = await Store.open(name, {
    memory,
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(maxEntries === undefined ? {} : { maxEntries }),
  });
  const warn = onWarning && ((warning: WarmstartError): void => tell(onWarning, warning));
  return new Cache(new Core(engine, store, { name, memory, onWarning: warn }));
}
