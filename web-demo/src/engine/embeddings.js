import { key } from "warmstart";
import { passages } from "../passages.js";
import { DIMENSIONS, modelFields } from "./files.js";

/** The number of passages that are embedded at a time. */
const BATCH = 8;

/** Returns the embeddings of all passages, one after the other. `results` keeps them. */
export async function embeddings(results, model, files, progress) {
  const name = key("demo.passages", 1, {
    ...modelFields(files),
    device: model.device,
    passages: passages.map(({ text }) => text),
  });
  const bytes = await results.getOrCreate(name, ({ onProgress }) => embedAll(model, onProgress), {
    label: `embeddings of ${passages.length} passages`,
    onProgress: (loaded, total) => progress("Embedding the passages", loaded, total),
  });
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

async function embedAll(model, onProgress) {
  const vectors = new Float32Array(passages.length * DIMENSIONS);
  // Passages of similar length share a batch, which is as slow as its longest passage.
  const order = passages
    .map((_, index) => index)
    .sort((a, b) => passages[a].text.length - passages[b].text.length);
  for (let done = 0; done < order.length; done += BATCH) {
    const batch = order.slice(done, done + BATCH);
    const found = await model.embed(batch.map((index) => passages[index].text));
    batch.forEach((index, place) => {
      vectors.set(found.subarray(place * DIMENSIONS, (place + 1) * DIMENSIONS), index * DIMENSIONS);
    });
    onProgress(Math.min(done + BATCH, order.length), order.length);
  }
  return vectors;
}
