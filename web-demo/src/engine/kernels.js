// The kernels that compare a question with every passage, in several variants. The machine determines which is
// fastest.

import { DIMENSIONS } from "./files.js";

const QUADS = DIMENSIONS / 4;

const bindings = (type) => /* wgsl */ `
@group(0) @binding(0) var<storage, read> rows: array<${type}>;
@group(0) @binding(1) var<storage, read> question: array<${type}>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
override WG: u32 = 64u;
`;

/** One thread per passage, one number at a time. */
const SCALAR = /* wgsl */ `${bindings("f32")}
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x;
  if (row >= arrayLength(&scores)) { return; }
  var sum = 0.0;
  for (var i = 0u; i < ${DIMENSIONS}u; i++) { sum += rows[row * ${DIMENSIONS}u + i] * question[i]; }
  scores[row] = sum;
}`;

/** One thread per passage, four numbers at a time. */
const VECTOR = /* wgsl */ `${bindings("vec4f")}
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x;
  if (row >= arrayLength(&scores)) { return; }
  var sum = 0.0;
  for (var i = 0u; i < ${QUADS}u; i++) { sum += dot(rows[row * ${QUADS}u + i], question[i]); }
  scores[row] = sum;
}`;

/** The same, with the question copied to the fast memory of the workgroup first. */
const SHARED = /* wgsl */ `${bindings("vec4f")}
var<workgroup> near: array<vec4f, ${QUADS}>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
  for (var i = local; i < ${QUADS}u; i += WG) { near[i] = question[i]; }
  workgroupBarrier();
  let row = id.x;
  if (row >= arrayLength(&scores)) { return; }
  var sum = 0.0;
  for (var i = 0u; i < ${QUADS}u; i++) { sum += dot(rows[row * ${QUADS}u + i], near[i]); }
  scores[row] = sum;
}`;

/** One workgroup per passage, which adds up its parts in a tree. */
const TREE = /* wgsl */ `${bindings("vec4f")}
var<workgroup> parts: array<f32, WG>;
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let row = group.x;
  var sum = 0.0;
  for (var i = local; i < ${QUADS}u; i += WG) { sum += dot(rows[row * ${QUADS}u + i], question[i]); }
  parts[local] = sum;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (local < half) { parts[local] += parts[local + half]; }
    workgroupBarrier();
  }
  if (local == 0u) { scores[row] = parts[0]; }
}`;

const perThread = (name, source, sizes) =>
  sizes.map((size) => ({ name, source, size, groups: (count) => Math.ceil(count / size) }));

/** All variants. `groups` returns the number of workgroups for a number of passages. */
export const VARIANTS = [
  ...perThread("one by one", SCALAR, [32, 64, 128]),
  ...perThread("by fours", VECTOR, [32, 64, 128]),
  ...perThread("by fours, question shared", SHARED, [32, 64, 128]),
  ...[32, 64].map((size) => ({ name: "a group a passage", source: TREE, size, groups: (count) => count })),
];

/** Returns the pipeline descriptor of a variant. */
export function request({ name, source, size }) {
  return {
    label: `${name}, ${size}`,
    layout: "auto",
    compute: { module: source, entryPoint: "main", constants: { WG: size } },
  };
}

/** Computes the scores in plain JavaScript: the reference, and the fallback without WebGPU. */
export function scoresOf(vectors, question, count) {
  const scores = new Float32Array(count);
  for (let row = 0; row < count; row++) {
    let sum = 0;
    for (let i = 0, at = row * DIMENSIONS; i < DIMENSIONS; i++) sum += vectors[at + i] * question[i];
    scores[row] = sum;
  }
  return scores;
}
