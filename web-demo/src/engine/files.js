import { download } from "warmstart";

/** The length of an embedding. */
export const DIMENSIONS = 384;

/** The name of the cache in which transformers.js keeps files, as it is shipped, over the Cache API. */
export const DEFAULT_CACHE = "transformers-cache";

/** Lists the files that a device needs: addresses, sizes and hashes. `site` is the folder of the page. */
export async function manifest(site, device) {
  const response = await fetch(new URL("files.json", site));
  if (!response.ok) throw new Error(`files.json: the server answered ${response.status}; build the site again`);
  const files = await response.json();
  return files
    .filter((file) => file.device === undefined || file.device === device)
    .map((file) => ({ ...file, url: new URL(file.url, site).href }));
}

/** Everything that determines the model's output: part of the key of all values derived from it. */
export function modelFields(files) {
  const named = (end) => files.find(({ url }) => url.endsWith(end));
  return { model: named("model.onnx").integrity, tokenizer: named("tokenizer.json").integrity };
}

/** Lists the files that are not stored: in `cache`, or in the cache of transformers.js if there is none. */
export async function missing(cache, files) {
  const theirs = cache ? undefined : await caches.open(DEFAULT_CACHE);
  const stored = await Promise.all(files.map(({ url }) => (theirs ? theirs.match(url) : cache.has(url))));
  return files.filter((_, index) => !stored[index]);
}

/**
 * Downloads files, and resumes an interrupted download.
 *
 * @returns what could not be stored, as Blobs by address: the cache may be smaller than the model
 */
export async function fetchFiles(cache, files, progress) {
  const bodies = await download(cache, files, {
    as: "blob",
    onProgress: ({ loaded, total }) => progress("", loaded, total),
  });
  const stored = await Promise.all(files.map(({ url }) => cache.has(url)));
  return new Map(files.flatMap(({ url }, index) => (stored[index] ? [] : [[url, bodies[index]]])));
}

/** Stores the files in the cache of transformers.js, under the addresses that it uses itself. */
export async function fillDefaultCache(cache, files) {
  const theirs = await caches.open(DEFAULT_CACHE);
  for (const { url } of await missing(undefined, files)) {
    await theirs.put(url, (await cache.get(url, "response")) ?? (await fetch(url)));
  }
}
