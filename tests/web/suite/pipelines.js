// Compute pipelines that are recorded on one visit, and recreated on the next before they are requested.

const DOUBLE = `
  override factor: f32 = 2.0;
  @group(0) @binding(0) var<storage, read_write> data: array<f32>;
  @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
    data[id.x] = data[id.x] * factor;
  }`;
const WRONG = "@compute @workgroup_size(4) fn main() { this is no WGSL }";

/** Requests a device, as on a new visit. Its uncaught errors fail the test. */
async function device(t) {
  const adapter = (await navigator.gpu?.requestAdapter()) ?? t.lacking("WebGPU adapter");
  const made = await adapter.requestDevice();
  const unseen = [];
  made.addEventListener("uncapturederror", (event) => {
    event.preventDefault();
    unseen.push(event.error.message);
  });
  t.after(() => {
    made.destroy();
    t.equal(unseen, [], "uncaught errors of the device");
  });
  return made;
}

/** Asks as a runtime does whose calls the list watches. */
async function ask({ gpu, list }, more = {}, label) {
  list.attach();
  const module = gpu.createShaderModule({ code: DOUBLE });
  const compute = { module, entryPoint: "main", ...more };
  return gpu.createComputePipelineAsync({ layout: "auto", compute, ...(label && { label }) });
}

/** Asks for a pipeline with this constant. */
const askFor = (visited, factor) => ask(visited, { constants: { factor } });

/** Runs the pipeline on 1, 2, 3, 4. */
async function run(gpu, pipeline, layout = pipeline.getBindGroupLayout(0)) {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const data = gpu.createBuffer({ size: 16, usage });
  const seen = gpu.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  gpu.queue.writeBuffer(data, 0, new Float32Array([1, 2, 3, 4]));
  const group = gpu.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer: data } }] });
  const encoder = gpu.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(data, 0, seen, 0, 16);
  gpu.queue.submit([encoder.finish()]);
  await seen.mapAsync(GPUMapMode.READ);
  return [...new Float32Array(seen.getMappedRange())];
}

/** Acts like an unmodified runtime: creates modules and layouts, then pipelines. */
async function runtime(gpu, { explicit = false, sync = false, code = DOUBLE, constants } = {}) {
  const module = gpu.createShaderModule({ label: "double", code });
  const entries = [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: "storage" } }];
  const group = explicit ? gpu.createBindGroupLayout({ label: "group", entries }) : undefined;
  const layout = explicit ? gpu.createPipelineLayout({ bindGroupLayouts: [group] }) : "auto";
  const descriptor = { label: "double", layout, compute: { module, entryPoint: "main", ...(constants && { constants }) } };
  const pipeline = sync ? gpu.createComputePipeline(descriptor) : await gpu.createComputePipelineAsync(descriptor);
  return { pipeline, group };
}

/** A visit: a new device, with the list of the earlier ones. */
async function visit(t, cache, options) {
  const gpu = await device(t);
  const list = await t.warmstart.pipelines(cache, gpu, "model", options);
  await list.ready;
  return { gpu, list };
}

async function listed(t, cache, label = "compute pipelines of model") {
  const entry = (await cache.entries()).find((entry) => entry.label === label);
  return entry && { key: entry.key, list: JSON.parse(await cache.get(entry.key, "text")) };
}

const factors = ({ pipelines }) => pipelines.map(({ compute }) => JSON.parse(compute).constants.factor);

export const tests = {
  "pipelines of a visit are created before the next asks": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    t.equal(await run(first.gpu, await ask(first)), [2, 4, 6, 8]);
    t.equal(first.list.stats(), { recorded: 1, created: 0, used: 0, failed: 0 });
    t.ok(await first.list.save());

    const second = await visit(t, cache);
    t.equal(second.list.stats(), { recorded: 1, created: 1, used: 0, failed: 0 });
    const pipeline = await ask(second, {}, "mine");
    t.equal([pipeline.label, second.list.stats().used], ["mine", 1]);
    t.equal(await run(second.gpu, pipeline), [2, 4, 6, 8]);
  },

  "an unmodified runtime is recorded and served": async (t) => {
    for (const options of [{}, { sync: true }, { explicit: true }, { explicit: true, sync: true }]) {
      const cache = await t.open();
      const note = JSON.stringify(options);
      const first = await visit(t, cache);
      first.list.attach();
      const { pipeline, group } = await runtime(first.gpu, options);
      t.equal(await run(first.gpu, pipeline, group), [2, 4, 6, 8], note);
      await first.list.save();

      const second = await visit(t, cache);
      t.equal(second.list.stats().created, 1, note);
      let asked = 0;
      for (const name of ["createComputePipeline", "createComputePipelineAsync"]) {
        const original = second.gpu[name];
        second.gpu[name] = (...given) => ((asked += 1), original.apply(second.gpu, given));
      }
      second.list.attach();
      const again = await runtime(second.gpu, options);
      t.equal([asked, second.list.stats().used], [0, 1], note);
      t.equal(await run(second.gpu, again.pipeline, again.group), [2, 4, 6, 8], note);
    }
  },

  "the list is written by itself": async (t) => {
    const cache = await t.open();
    const { gpu, list } = await visit(t, cache);
    list.attach();
    const stored = new Promise((resolve) => cache.events.on("stored", resolve));
    await runtime(gpu);
    await stored;
    t.equal((await listed(t, cache)).list.pipelines.length, 1);
  },

  "a source of several pipelines is stored once": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    first.list.attach();
    for (const factor of [2, 3, 0.5]) await runtime(first.gpu, { constants: { factor } });
    await runtime(first.gpu, { code: `${DOUBLE} // another` });
    await first.list.save();
    const { list } = await listed(t, cache);
    t.equal([list.pipelines.length, list.modules.length], [4, 2]);

    const second = await visit(t, cache);
    t.equal(second.list.stats().created, 4);
    for (const factor of [2, 3, 0.5]) {
      const pipeline = await askFor(second, factor);
      t.equal(await run(second.gpu, pipeline), [1, 2, 3, 4].map((value) => value * factor));
    }
    t.equal(second.list.stats().used, 3);
  },

  "a pipeline that no longer compiles is dropped silently": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    await ask(first);
    await first.list.save();
    const { key, list } = await listed(t, cache);
    const broken = { ...list, modules: [...list.modules, WRONG] };
    const [good] = list.pipelines;
    const layout = JSON.stringify({ bindGroupLayouts: [{ entries: [{ binding: -1 }] }] });
    broken.pipelines.push({ ...good, module: 1 }, { ...good, layout }, { ...good, compute: '{"entryPoint":"gone"}' });
    await cache.put(key, JSON.stringify(broken));

    const second = await visit(t, cache);
    t.equal(second.list.stats(), { recorded: 1, created: 1, used: 0, failed: 3 });
    await second.list.save();
    t.equal((await listed(t, cache)).list.pipelines.length, 1);
    const third = await visit(t, cache);
    t.equal(third.list.stats(), { recorded: 1, created: 1, used: 0, failed: 0 });
  },

  "the runtime sees the errors of its own mistakes": async (t) => {
    const cache = await t.open();
    const { gpu, list } = await visit(t, cache);
    list.attach();
    gpu.pushErrorScope("validation");
    await t.rejects(runtime(gpu, { code: WRONG }), "GPUPipelineError");
    t.ok((await gpu.popErrorScope()) !== null, "the module's error is in the page's own scope");
    await t.rejects(ask({ gpu, list }, { entryPoint: "gone" }), "GPUPipelineError");
    t.equal(list.stats().recorded, 0, "it is not recorded");
  },

  "a list that is damaged is as good as none": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    await ask(first);
    await first.list.save();
    const { key, list } = await listed(t, cache);
    const wrong = [
      "no JSON",
      "null",
      JSON.stringify({ ...list, modules: 5 }),
      JSON.stringify({ ...list, pipelines: [null, 5, {}, { ...list.pipelines[0], module: 7 }] }),
    ];
    for (const text of wrong) {
      await cache.put(key, text);
      const { list: next } = await visit(t, cache);
      t.equal(next.stats(), { recorded: 0, created: 0, used: 0, failed: 0 }, text);
    }
  },

  "the list is bounded, and drops the least recently used": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache, { max: 2 });
    for (const factor of [1, 2, 3]) {
      await askFor(first, factor);
      await t.sleep(5);
    }
    await askFor(first, 2);
    t.equal(first.list.stats().recorded, 2);
    await t.sleep(5);
    await askFor(first, 4);
    await first.list.save();
    const { list } = await listed(t, cache);
    t.equal(factors(list), [2, 4]);
  },

  "uses are stored beside the list and decide what is dropped": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache, { max: 3 });
    for (const factor of [1, 2, 3]) await askFor(first, factor);
    await first.list.save();
    const { list: written } = await listed(t, cache);

    let writes = 0;
    cache.events.on("stored", () => (writes += 1));
    for (const factor of [1, 3, 1]) {
      const next = await visit(t, cache, { max: 3 });
      await askFor(next, factor);
      t.ok(await next.list.save());
    }
    t.equal((await listed(t, cache)).list, written, "the list is as it was");
    t.equal((await listed(t, cache, "uses of the pipelines of model")).list, { list: written.id, used: "+-+" });
    t.equal(writes, 2, "what is noted is not noted again");

    const last = await visit(t, cache, { max: 3 });
    await askFor(last, 4);
    await last.list.save();
    t.equal(factors((await listed(t, cache)).list), [1, 3, 4], "2 was not used");
    const bounded = await visit(t, cache, { max: 2 });
    for (const factor of [3, 4]) await askFor(bounded, factor);
    t.equal(bounded.list.stats().used, 2, "the uses of another list count for nothing");
  },

  "uses are noted by themselves, once a visit": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    for (const factor of [1, 2]) await askFor(first, factor);
    await first.list.save();
    const second = await visit(t, cache);
    const sizes = [];
    const stored = new Promise((resolve) => cache.events.on("stored", ({ size }) => resolve(sizes.push(size))));
    await askFor(second, 1);
    await stored;
    await askFor(second, 2);
    await t.sleep(3500);
    t.equal(sizes, [JSON.stringify({ list: Date.now(), used: "+-" }).length]);
  },

  "a served pipeline does not turn its source into JSON": async (t) => {
    const cache = await t.open();
    const { gpu, list } = await visit(t, cache);
    list.attach();
    const module = gpu.createShaderModule({ code: DOUBLE });
    const { stringify } = JSON;
    let longest = 0;
    JSON.stringify = (...given) => {
      const text = stringify(...given);
      longest = Math.max(longest, text.length);
      return text;
    };
    t.after(() => (JSON.stringify = stringify));
    const descriptor = { layout: "auto", compute: { module, entryPoint: "main" } };
    const pipeline = await gpu.createComputePipelineAsync(descriptor);
    t.ok((await gpu.createComputePipelineAsync(descriptor)) === pipeline, "async");
    t.ok(gpu.createComputePipeline(descriptor) === pipeline, "sync");
    t.equal([list.stats().used, longest], [2, '{"entryPoint":"main"}'.length]);
    t.ok(await list.save());
    t.ok(longest > DOUBLE.length, "the list has it");
  },

  "the pipelines of two tabs that record at a time are stored": async (t) => {
    const cache = await t.open();
    const [one, other] = [await visit(t, cache), await visit(t, cache)];
    await askFor(one, 1);
    await askFor(other, 2);
    await one.list.save();
    await other.list.save();
    t.equal((await visit(t, cache)).list.stats().created, 2);
  },

  "a layout of another pipeline is not recorded": async (t) => {
    const cache = await t.open();
    const { gpu, list } = await visit(t, cache);
    list.attach();
    const { pipeline } = await runtime(gpu, { explicit: true });
    const group = pipeline.getBindGroupLayout(0);
    const layout = gpu.createPipelineLayout({ bindGroupLayouts: [group] });
    const module = gpu.createShaderModule({ code: DOUBLE });
    const other = await gpu.createComputePipelineAsync({ layout, compute: { module } });
    t.equal(await run(gpu, other, group), [2, 4, 6, 8]);
    t.equal(list.stats().recorded, 1);
  },

  "layouts of the same structure are the same pipeline": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    first.list.attach();
    await runtime(first.gpu, { explicit: true });
    await runtime(first.gpu, { explicit: true });
    t.equal(first.list.stats(), { recorded: 1, created: 0, used: 1, failed: 0 });
  },

  "detach leaves the device as it was": async (t) => {
    const cache = await t.open();
    const { gpu, list } = await visit(t, cache);
    const detach = list.attach();
    t.ok(Object.hasOwn(gpu, "createComputePipeline"));
    detach();
    t.equal(Object.keys(gpu), []);
    await runtime(gpu);
    t.equal(list.stats().recorded, 0);
  },

  "devices that a runtime requests itself can be watched": async (t) => {
    const cache = await t.open();
    const watched = t.warmstart.watchDevices(cache, "model");
    const gpu = await device(t);
    await runtime(gpu);
    t.equal(watched.lists.map((list) => list.stats().recorded), [1]);
    await watched.lists[0].save();
    watched.stop();
    const unwatched = await device(t);
    t.equal([watched.lists.length, Object.keys(gpu), Object.keys(unwatched)], [1, [], []]);
    t.equal((await visit(t, cache)).list.stats().created, 1);
  },

  "a list without device, name or room is an error": async (t) => {
    const cache = await t.open();
    const gpu = await device(t);
    await t.rejects(t.warmstart.pipelines(cache, undefined, "model"), "invalid_argument");
    await t.rejects(t.warmstart.pipelines(cache, gpu, ""), "invalid_argument");
    await t.rejects(t.warmstart.pipelines(cache, gpu, "model", { max: 0 }), "invalid_argument");
  },

  "a lost device loses no record": async (t) => {
    const cache = await t.open();
    const first = await visit(t, cache);
    await ask(first);
    await first.list.save();
    const gpu = await device(t);
    const list = await t.warmstart.pipelines(cache, gpu, "model");
    gpu.destroy();
    await list.ready;
    await gpu.lost;
    await list.save();
    t.equal((await visit(t, cache)).list.stats().created, 1);
  },
};
