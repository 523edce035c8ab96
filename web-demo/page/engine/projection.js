import { key } from "../warmstart/dist/index.js";
import { DIMENSIONS, modelFields } from "./files.js";
import { passages } from "./passages.js";

const STEPS = 60;

/**
 * A map of all passages: their vectors, seen from the side on which they differ most (the first two principal
 * components). Made once and kept.
 *
 * @returns {Promise<{ places: Float32Array, project(vector: ArrayLike<number>): [number, number] }>}
 */
export async function flatMap(cache, vectors, count, files) {
  const texts = passages.map(({ text }) => text);
  const name = key("demo.map", 1, { ...modelFields(files), passages: texts });
  const bytes = await cache.getOrCreate(name, () => axesOf(vectors, count), { label: "map of the passages" });
  const axes = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const [mean, first, second] = [0, 1, 2].map((row) =>
    axes.subarray(row * DIMENSIONS, (row + 1) * DIMENSIONS),
  );
  const project = (vector) => {
    let [x, y] = [0, 0];
    for (let i = 0; i < DIMENSIONS; i++) {
      x += (vector[i] - mean[i]) * first[i];
      y += (vector[i] - mean[i]) * second[i];
    }
    return [x, y];
  };
  const places = new Float32Array(count * 2);
  for (let row = 0; row < count; row++) {
    places.set(project(vectors.subarray(row * DIMENSIONS, (row + 1) * DIMENSIONS)), row * 2);
  }
  return { places, project };
}

/** The mean and the first two principal components, found by power iteration. */
function axesOf(vectors, count) {
  const axes = new Float32Array(3 * DIMENSIONS);
  const mean = axes.subarray(0, DIMENSIONS);
  for (let at = 0; at < count * DIMENSIONS; at++) mean[at % DIMENSIONS] += vectors[at] / count;
  for (const row of [1, 2]) {
    let axis = Float64Array.from({ length: DIMENSIONS }, (_, i) => Math.sin(i * row + 1));
    for (let step = 0; step < STEPS; step++) {
      const next = new Float64Array(DIMENSIONS);
      for (let at = 0; at < count; at++) {
        let along = 0;
        for (let i = 0; i < DIMENSIONS; i++) along += (vectors[at * DIMENSIONS + i] - mean[i]) * axis[i];
        for (let i = 0; i < DIMENSIONS; i++) next[i] += (vectors[at * DIMENSIONS + i] - mean[i]) * along;
      }
      for (let earlier = 1; earlier < row; earlier++) remove(next, axes.subarray(earlier * DIMENSIONS));
      const length = Math.hypot(...next);
      axis = next.map((value) => value / length);
    }
    axes.set(axis, row * DIMENSIONS);
  }
  return axes;
}

/** Removes the component of `vector` along `axis`. */
function remove(vector, axis) {
  let along = 0;
  for (let i = 0; i < DIMENSIONS; i++) along += vector[i] * axis[i];
  for (let i = 0; i < DIMENSIONS; i++) vector[i] -= along * axis[i];
}
