import type { Cache } from "../cache.js";
import { download } from "../download.js";
import { urlKey } from "../url.js";

/** The interface that tvmjs calls `ArtifactCacheTemplate`. */
export interface ArtifactCache {
  /**
   * Returns the file from the cache or the network: parsed with `"json"`, an `ArrayBuffer` with
   * `"arraybuffer"`, otherwise a `Response`. Rejects like {@link download}.
   */
  fetchWithCache(url: string, storetype?: string, signal?: AbortSignal): Promise<any>; // eslint-disable-line
  /** Downloads the file into the cache, if it is missing. Rejects like {@link download}. */
  addToCache(url: string, storetype?: string, signal?: AbortSignal): Promise<void>;
  /** Tells whether all files are in the cache. */
  hasAllKeys(keys: string[]): Promise<boolean>;
  /** Removes the file from the cache. */
  deleteInCache(url: string): Promise<void>;
}

/**
 * Adapts a cache for tvmjs: pass it as `artifactCache`.
 *
 * Interrupted downloads resume, and damaged files are fetched again. `hasAllKeys` reads no values. `addToCache`
 * ignores `storetype`: the bytes are stored unchanged.
 *
 * @example
 * ```ts
 * await tvm.fetchTensorCache(url, tvm.webgpu(), { artifactCache: asArtifactCache(cache) });
 * ```
 */
export function asArtifactCache(cache: Cache): ArtifactCache {
  return {
    async fetchWithCache(url, storetype, signal) {
      const type = storetype?.toLowerCase();
      if (type === "arraybuffer") return (await download(cache, url, { signal })).buffer;
      const response = await download(cache, url, { as: "response", signal });
      return type === "json" ? response.json() : response;
    },
    async addToCache(url, _storetype, signal) {
      signal?.throwIfAborted();
      if (!(await cache.has(urlKey(url)))) await download(cache, url, { as: "response", signal });
    },
    async hasAllKeys(keys) {
      return (await Promise.all(keys.map((key) => cache.has(urlKey(key))))).every(Boolean);
    },
    async deleteInCache(url) {
      await cache.delete(urlKey(url));
    },
  };
}
