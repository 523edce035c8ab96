import type { Cache } from "../cache.js";
import { tell } from "../listener.js";
import { refusePage } from "../transfer.js";
import { urlKey } from "../url.js";

/** What transformers.js asks of `env.customCache`. */
export interface TransformersCache {
  /** The stored answer, or `undefined`. */
  match(request: string | URL | Request): Promise<Response | undefined>;
  /** Stores an answer. */
  put(request: string | URL | Request, response: Response, onProgress?: TransformersProgress): Promise<void>;
  /** Removes an answer, and says whether there was one. */
  delete(request: string | URL | Request): Promise<boolean>;
}

/** How transformers.js is told of progress; `progress` is in percent. */
export type TransformersProgress = (data: { progress: number; loaded: number; total: number }) => void;

/**
 * A cache for transformers.js: models, tokenizers and, where `wasmPaths` is an object, ONNX Runtime itself.
 *
 * `match` is its test of existence, up to three times a file. So it reads no body: that of the answer is read
 * when it is asked for, and checked while it streams. What was damaged is gone when the stream fails, and the
 * next load gets it anew. An address is made absolute, so that {@link download} can bring files here ahead of
 * time.
 *
 * `put` rejects with `unexpected_html` for a page of HTML under another name than `.html`, and with
 * `http_error` for an answer that is not ok. transformers.js then warns and goes on without.
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
      refusePage(key, response);
      await cache.put(key, onProgress ? watched(response, onProgress) : response, { label: key });
    },
    delete: (request) => cache.delete(urlKey(request)),
  };
}

/** The same answer, that tells how far its body is read. */
function watched(response: Response, onProgress: TransformersProgress): Response {
  const total = Number(response.headers.get("content-length") ?? 0);
  let loaded = 0;
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      loaded += chunk.byteLength;
      const all = Math.max(total, loaded);
      tell(onProgress, { progress: (loaded / all) * 100, loaded, total: all });
      controller.enqueue(chunk);
    },
  });
  // An answer without a body, or one that will be refused, stays as it is.
  if (response.body === null || !response.ok) return response;
  return new Response(response.body.pipeThrough(counting), response);
}
