import type { Cache } from "../cache.js";
import { pageInstead } from "../transfer.js";
import { urlKey } from "../url.js";

/** The interface of transformers.js's `env.customCache`. */
export interface TransformersCache {
  /** Returns the stored response, or `undefined`. */
  match(request: string | URL | Request): Promise<Response | undefined>;
  /** Stores a response. */
  put(request: string | URL | Request, response: Response, onProgress?: TransformersProgress): Promise<void>;
  /** Removes a response. Resolves with whether there was one. */
  delete(request: string | URL | Request): Promise<boolean>;
}

/** A progress listener of transformers.js; `progress` is in percent, `loaded` and `total` in bytes. */
export type TransformersProgress = (data: { progress: number; loaded: number; total: number }) => void;

/**
 * Adapts a cache for transformers.js: for models, tokenizers and, if `wasmPaths` is an object, ONNX Runtime.
 *
 * transformers.js calls `match` up to three times per file to test whether it exists, so `match` reads no body.
 * The body is read only when the caller reads it, and verified while it streams. If it is damaged, the stream
 * fails and the entry is removed; the next load fetches the file again. A use is counted when a body was read, so
 * not at every call of `match`. Keys are absolute URLs, so {@link
 * download} can fetch files ahead of time.
 *
 * `put` rejects with `unexpected_html` for an HTML page under a name other than `.html`, and with
 * `http_error` for a response that is not ok. transformers.js then warns and continues without the cache.
 *
 * @example
 * ```ts
 * env.useCustomCache = true;
 * env.customCache = asTransformersCache(await open({ name: "models" }));
 * ```
 */
export function asTransformersCache(cache: Cache): TransformersCache {
  return {
    match: (request) => cache.get(urlKey(request), "response"),
    async put(request, response, onProgress) {
      const key = urlKey(request);
      const page = pageInstead(key, response);
      if (page) throw page;
      await cache.put(key, response, {
        label: key,
        onProgress: (loaded, total = loaded) => onProgress?.({ progress: (loaded / total) * 100, loaded, total }),
      });
    },
    delete: (request) => cache.delete(urlKey(request)),
  };
}
