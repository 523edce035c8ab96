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
export { download } from "./download.js";
export type { DownloadOptions, DownloadProgress, Shard, Source } from "./download.js";
export { webgpuKey } from "./webgpu.js";
export type { WebGpu, WebGpuKeyParts } from "./webgpu.js";
export { PipelineList, pipelines, watchDevices } from "./pipelines.js";
export type { PipelinesOptions, PipelineStats } from "./pipelines.js";
export { asTransformersCache } from "./adapters/transformers.js";
export type { TransformersCache, TransformersProgress } from "./adapters/transformers.js";
export { asCacheStorage } from "./adapters/cache-storage.js";
export type { NamedCache, NamedCaches } from "./adapters/cache-storage.js";
export { asArtifactCache } from "./adapters/artifact-cache.js";
export type { ArtifactCache } from "./adapters/artifact-cache.js";
