import { DIMENSIONS } from "./files.js";
import { VARIANTS, request, scoresOf } from "./kernels.js";

/** Runs of a kernel per measurement, so that the round trip to the device weighs little. */
const REPEAT = 64;
/** Measurements per kernel; the best one counts. */
const ROUNDS = 3;
/** The largest error of a score that counts as rounding. */
const TOLERANCE = 1e-4;

/**
 * Measures every variant on this machine. Rejects one that does not compile, or whose scores differ from JavaScript's.
 *
 * @param onProgress is called with how many variants are done, and how many there are
 * @returns the winner: `{ name, size, us, tried: [{ name, size, us }] }`, times in microseconds a run
 */
export async function tune(device, board, vectors, count, onProgress) {
  const question = vectors.slice(0, DIMENSIONS);
  const wanted = scoresOf(vectors, question, count);
  const tried = [];
  for (const [index, variant] of VARIANTS.entries()) {
    const us = await time(device, board, variant, count, question, wanted).catch(() => undefined);
    if (us !== undefined) tried.push({ name: variant.name, size: variant.size, us });
    onProgress(index + 1, VARIANTS.length);
  }
  if (tried.length === 0) throw new Error("no kernel computes the right scores here");
  const best = tried.reduce((best, next) => (next.us < best.us ? next : best));
  return { ...best, tried };
}

/** Returns the microseconds of a run, or nothing if the scores are wrong. */
async function time(device, board, variant, count, question, wanted) {
  const { label, layout, compute } = request(variant);
  const module = device.createShaderModule({ code: compute.module });
  const pipeline = await device.createComputePipelineAsync({
    label,
    layout,
    compute: { ...compute, module },
  });
  const groups = variant.groups(count);
  const scores = await board.run(pipeline, groups, question);
  if (!scores.every((score, row) => Math.abs(score - wanted[row]) < TOLERANCE)) return undefined;
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const begun = performance.now();
    await board.run(pipeline, groups, question, REPEAT);
    best = Math.min(best, performance.now() - begun);
  }
  return (best * 1000) / REPEAT;
}
