import { pipelines, webgpuKey } from "../warmstart/dist/index.js";
import { DIMENSIONS } from "./files.js";
import { VARIANTS, request, scoresOf } from "./kernels.js";
import { tune } from "./tune.js";

/** Starts to recreate the pipelines of earlier visits. Does nothing without a device. */
export async function openKernels(cache, device) {
  return device ? { device, list: await pipelines(cache, device, "demo") } : undefined;
}

/** Finds the passages that are nearest to a question: on the graphics processor, or in JavaScript. */
export class Neighbours {
  /** A description of how it searches, for people. */
  shown;
  #vectors;
  #count;
  #gpu;

  constructor(vectors, count, gpu, shown) {
    this.#vectors = vectors;
    this.#count = count;
    this.#gpu = gpu;
    this.shown = shown;
  }

  /** Tunes the kernels, or returns the cached result of tuning on this machine. */
  static async create({ cache, kernels, vectors, count, progress }) {
    const plain = (why) => new Neighbours(vectors, count, undefined, { where: "JavaScript", why });
    if (!kernels) return plain("no WebGPU");
    const { device, list } = kernels;
    try {
      const board = new Board(device, vectors, count);
      const source = VARIANTS.map(({ name, size, source }) => `// ${name} ${size}\n${source}`).join("\n");
      const name = webgpuKey(device, {
        source,
        entryPoint: "main",
        extra: { count, dimensions: DIMENSIONS },
      });
      const tuned = await cache.getOrCreate(
        name,
        async ({ onProgress }) => JSON.stringify(await tune(device, board, vectors, count, onProgress)),
        {
          as: "json",
          label: "the quickest kernel here",
          onProgress: (loaded, total) => progress("Trying kernels", loaded, total),
        },
      );
      const variant = VARIANTS.find(({ name, size }) => name === tuned.name && size === tuned.size);
      const pipeline = await list.computePipeline(request(variant));
      await list.ready;
      const gpu = { board, pipeline, groups: variant.groups(count) };
      const { recorded, created } = list.stats();
      return new Neighbours(vectors, count, gpu, { where: "WebGPU", ...tuned, recorded, created });
    } catch (error) {
      return plain(error.message);
    }
  }

  /** Returns the nearest passages, best first: their indices and similarities to the question (1 is equal). */
  async nearest(question, wanted) {
    const scores = await this.#scores(question);
    return Array.from(scores, (score, index) => ({ index, score }))
      .sort((a, b) => b.score - a.score)
      .slice(0, wanted);
  }

  async #scores(question) {
    if (this.#gpu) {
      try {
        return await this.#gpu.board.run(this.#gpu.pipeline, this.#gpu.groups, question);
      } catch (error) {
        // The device may be lost at any time, for example after an update of the driver.
        this.#gpu = undefined;
        this.shown = { where: "JavaScript", why: error.message };
      }
    }
    return scoresOf(this.#vectors, question, this.#count);
  }
}

/** The buffers on the device that every kernel works on. */
class Board {
  #device;
  #rows;
  #question;
  #scores;
  #result;
  #lost = false;

  constructor(device, vectors, count) {
    const { STORAGE, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
    const buffer = (size, usage) => device.createBuffer({ size, usage });
    this.#device = device;
    this.#rows = buffer(vectors.byteLength, STORAGE | COPY_DST);
    this.#question = buffer(DIMENSIONS * 4, STORAGE | COPY_DST);
    this.#scores = buffer(count * 4, STORAGE | COPY_SRC);
    this.#result = buffer(count * 4, MAP_READ | COPY_DST);
    device.queue.writeBuffer(this.#rows, 0, vectors);
    device.lost.then(() => (this.#lost = true));
  }

  /** Runs a kernel `repeat` times, for measurements, and reads the scores. */
  async run(pipeline, groups, question, repeat = 1) {
    if (this.#lost) throw new Error("the graphics device was lost");
    const resources = [this.#rows, this.#question, this.#scores];
    const entries = resources.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const group = this.#device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    this.#device.queue.writeBuffer(this.#question, 0, question);
    const encoder = this.#device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < repeat; i++) pass.dispatchWorkgroups(groups);
    pass.end();
    encoder.copyBufferToBuffer(this.#scores, 0, this.#result, 0, this.#result.size);
    this.#device.queue.submit([encoder.finish()]);
    await this.#result.mapAsync(GPUMapMode.READ);
    const scores = new Float32Array(this.#result.getMappedRange().slice(0));
    this.#result.unmap();
    return scores;
  }
}
