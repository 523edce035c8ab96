import type { Cache } from "../cache.js";
import { download } from "../download.js";
import { urlKey } from "../url.js";

/** What tvmjs calls an `ArtifactCacheTemplate`. */
export interface ArtifactCache {
  /**
   * The file, from the cache or the network: parsed if `"json"`, an `ArrayBuffer` if `"arraybuffer"`, else a
   * `Response`.
   */
  fetchWithCache(url: string, storetype?: string, signal?: AbortSignal): Promise<any>; // eslint-disable-line
  /** Brings the file into the cache, if it is not there. */
  addToCache(url: string, storetype?: string, signal?: AbortSignal): Promise<void>;
  /** Whether all files are in the cache. */
  hasAllKeys(keys: string[]): Promise<boolean>;
  /** Removes the file from the cache. */
  deleteInCache(url: string): Promise<void>;
}

/**
 * A cache for tvmjs: give it as `artifactCache`.
 *
 * A file that was interrupted goes on where it ended, and one that is damaged is fetched again. `hasAllKeys`
 * reads no value. The `storetype` of `addToCache` does not matter: the bytes are kept as they came.
 *
 * @example
 * ```ts
 * await tvm.fetchTensorCache(url, tvm.webgpu(), { artifactCache: asArtifactCache(cache) });
 * ```
 */
export function asArtifactCache(cache: Cache): ArtifactCache {
  return {
    async fetchWithCache(url, storetype, signal) {
      switch (storetype?.toLowerCase()) {
        case "json":
          return download(cache, url, { as: "json", signal });
        case "arraybuffer":
          return (await download(cache, url, { as: "bytes", signal })).buffer;
        default:
          return download(cache, url, { as: "response", signal });
      }
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
