import { Cache } from "./cache.js";
import { Core } from "./core.js";
import { encodeEnvelope, load } from "./engine.js";
import { bound, invalid } from "./errors.js";
import { opened } from "./store/record.js";
import { Store } from "./store/store.js";
import type { OpenOptions } from "./types.js";

/**
 * Opens a cache. If the browser has no usable IndexedDB, the cache is in memory, and warns once.
 *
 * @throws WarmstartError `invalid_argument` if an option is invalid; `unsupported` if the page cannot load WebAssembly
 *
 * @example
 * const cache = await open({ name: "my-app", maxBytes: 2 * 1024 ** 3 });
 */
export async function open(options: OpenOptions): Promise<Cache> {
  if (typeof options?.name !== "string" || options.name === "")
    throw invalid('The cache has no name; pass one, for example open({ name: "my-app" }).');
  const { name, memory = false, onWarning } = options;
  const maxBytes = bound("maxBytes", options.maxBytes);
  const maxEntries = bound("maxEntries", options.maxEntries);
  if (onWarning !== undefined && typeof onWarning !== "function")
    throw invalid(`onWarning is of type ${typeof onWarning}; pass a function, or omit it.`);
  // The database opens while the engine is compiled.
  const opening = Store.open(name, { maxBytes, maxEntries }, memory);
  await load();
  // Browsers compile code when it first runs. That of a look-up should not wait for the database.
  const nothing = new Uint8Array(0);
  opened(encodeEnvelope(nothing, nothing, nothing, 0), "");
  const cache = new Cache(new Core(await opening, name, memory));
  if (onWarning) cache.events.on("warning", onWarning);
  return cache;
}
