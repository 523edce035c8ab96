export { open } from "./open.js";
export { Cache } from "./cache.js";
export { key, Key } from "./key.js";
export type { FieldValue, KeyInput } from "./key.js";
export { WarmstartError } from "./errors.js";
export type { ErrorCode, ErrorDetails } from "./errors.js";
export { Events } from "./events.js";
export type { CacheEvents, EventEntry, Listener } from "./events.js";
export type {
  As,
  Build,
  BuildContext,
  CreateOptions,
  EntryInfo,
  Explanation,
  Formats,
  OpenOptions,
  Progress,
  PutOptions,
  Recipe,
  Stats,
  Value,
} from "./types.js";
