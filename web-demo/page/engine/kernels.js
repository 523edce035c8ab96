// The kernels that compare a question with every passage, in several variants. Which is quickest depends on the machine.

import { DIMENSIONS } from "./files.js";

const QUADS = DIMENSIONS / 4;

const bindings = (type) => /* wgsl */ `
@group(0) @binding(0) var<storage, read> rows: array<${type}>;
@group(0) @binding(1) var<storage, read> question: array<${type}>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
override WG: u32 = 64u;
`;

/** A thread takes a passage, number by number. */
const SCALAR = /* wgsl */ `${bindings("f32")}
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x;
  if (row >= arrayLength(&scores)) { return; }
  var sum = 0.0;
  for (var i = 0u; i < ${DIMENSIONS}u; i++) { sum += rows[row * ${DIMENSIONS}u + i] * question[i]; }
  scores[row] = sum;
}`;

/** A thread takes a passage, four numbers at a time. */
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

/** A whole workgroup takes a passage, and adds its parts up in a tree. */
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

/** All variants. `groups` says how many workgroups so many passages take. */
export const VARIANTS = [
  ...perThread("one by one", SCALAR, [32, 64, 128]),
  ...perThread("by fours", VECTOR, [32, 64, 128]),
  ...perThread("by fours, question shared", SHARED, [32, 64, 128]),
  ...[32, 64].map((size) => ({ name: "a group a passage", source: TREE, size, groups: (count) => count })),
];

/** What a pipeline of a variant is made from. */
export function request({ name, source, size }) {
  return {
    label: `${name}, ${size}`,
    layout: "auto",
    compute: { module: source, entryPoint: "main", constants: { WG: size } },
  };
}

/** The scores as plain JavaScript adds them up: the reference, and what is used without WebGPU. */
export function scoresOf(vectors, question, count) {
  const scores = new Float32Array(count);
  for (let row = 0; row < count; row++) {
    let sum = 0;
    for (let i = 0, at = row * DIMENSIONS; i < DIMENSIONS; i++) sum += vectors[at + i] * question[i];
    scores[row] = sum;
  }
  return scores;
}
