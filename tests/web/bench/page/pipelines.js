// Compute pipelines with 8 KiB of WGSL each.

import { open, pipelines } from "/warmstart/dist/index.js";

import { rest, timed } from "./turns.js";

/** Longer than the list waits before it notes uses, in milliseconds. */
const NOTED_MS = 5000;

/** The first visit: a runtime creates all pipelines. */
export async function record({ count }) {
  const { device, list } = await visit();
  await Promise.all(descriptors(device, count).map((descriptor) => device.createComputePipelineAsync(descriptor)));
  if (!(await list.save())) throw new Error("the list is not stored");
}

/** The second visit: microseconds a look-up in each pass, `sync` and `async`, and the bytes that the visit wrote. */
export async function use({ count, passes }) {
  const { device, list, written } = await visit();
  await list.ready;
  const all = descriptors(device, count);
  const [sync, later] = [[], []];
  for (let pass = 0; pass < passes; pass += 1) {
    sync.push(await timed(() => all.forEach((descriptor) => device.createComputePipeline(descriptor))));
    later.push(
      await timed(async () => {
        for (const descriptor of all) await device.createComputePipelineAsync(descriptor);
      }),
    );
  }
  await rest(NOTED_MS);
  await list.save();
  const { used } = list.stats();
  if (used !== 2 * passes * count) throw new Error(`${used} of ${2 * passes * count} were served`);
  const each = (took) => (took * 1000) / count;
  return { sync: sync.map(each), async: later.map(each), written: written() };
}

async function visit() {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const cache = await open({ name: "pipelines" });
  let bytes = 0;
  const counting = {
    put(key, value, options) {
      bytes += new TextEncoder().encode(value).length;
      return cache.put(key, value, options);
    },
  };
  const get = (_, name) => counting[name] ?? cache[name]?.bind?.(cache);
  const list = await pipelines(new Proxy(cache, { get }), device, "bench", { max: 1000 });
  list.attach();
  return { device, list, written: () => bytes };
}

/** What a runtime gives to its device. */
function descriptors(device, count) {
  return Array.from({ length: count }, (_, at) => {
    const filler = `// ${"what a generated kernel has ".repeat(280)}\n`;
    const code = `${filler}@group(0) @binding(0) var<storage, read_write> data: array<u32>;
      @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) { data[id.x] += ${at}u; }`;
    return { layout: "auto", compute: { module: device.createShaderModule({ code }), entryPoint: "main" } };
  });
}
