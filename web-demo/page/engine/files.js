import { download } from "../warmstart/dist/index.js";

/** The site's folder: this file is in a folder of it. */
export const SITE = new URL("../", import.meta.url);

/**
 * Which files the model needs, with addresses, sizes and hashes, and with `device` those that only one needs.
 */
export async function manifest() {
  const response = await fetch(new URL("files.json", SITE));
  if (!response.ok) throw new Error(`files.json: the server answered ${response.status}`);
  return (await response.json()).map((file) => ({ ...file, url: new URL(file.url, SITE).href }));
}

/** The length of an embedding. */
export const DIMENSIONS = 384;

/** Everything that determines the model's output: part of the key of all values derived from it. */
export function modelFields(files) {
  const named = (end) => files.find(({ url }) => url.endsWith(end));
  return { model: named("model.onnx").integrity, tokenizer: named("tokenizer.json").integrity };
}

/**
 * Downloads what the cache does not hold. A download that was cut short goes on where it was.
 *
 * @returns what could not be kept (the cache may be smaller than the model), by address
 */
export async function bring(cache, files, progress) {
  const there = await Promise.all(files.map(({ url }) => cache.has(url)));
  const missing = files.filter((_, index) => !there[index]);
  const held = new Map();
  if (missing.length === 0) return held;
  const bodies = await download(cache, missing, {
    as: "blob",
    onProgress: ({ loaded, total }) => progress("", loaded, total),
  });
  const kept = await Promise.all(missing.map(({ url }) => cache.has(url)));
  missing.forEach(({ url }, index) => {
    if (!kept[index]) held.set(url, bodies[index]);
  });
  return held;
}
