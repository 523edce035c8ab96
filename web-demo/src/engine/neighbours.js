import { pipelines, webgpuKey } from "warmstart";
import { passages } from "../passages.js";
import { DIMENSIONS } from "./files.js";
import { VARIANTS, request, scoresOf } from "./kernels.js";
import { tune } from "./tune.js";

/** Finds the passages that are nearest to a question: on the graphics processor, or in JavaScript. */
export class Neighbours {
  /** A description of how it searches, for people. */
  shown;
  #vectors;
  #gpu;

  constructor(vectors, gpu, shown) {
    this.#vectors = vectors;
    this.#gpu = gpu;
    this.shown = shown;
  }

  /**
   * Tunes the kernels on this machine and compiles the fastest.
   *
   * @param results keeps the result of tuning
   * @param list what {@link openPipelines} returned, or nothing: then the pipeline is compiled without a list
   */
  static async create({ results, list, device, vectors, progress }) {
    const plain = (why) => new Neighbours(vectors, undefined, { where: "JavaScript", why });
    if (!device) return plain("no WebGPU");
    const count = passages.length;
    try {
      const board = new Board(device, vectors, count);
      const source = VARIANTS.map(({ name, size, source }) => `// ${name} ${size}\n${source}`).join("\n");
      const extra = { count, dimensions: DIMENSIONS };
      const name = webgpuKey(device, { source, entryPoint: "main", extra });
      const tuned = await results.getOrCreate(
        name,
        async ({ onProgress }) => JSON.stringify(await tune(device, board, vectors, count, onProgress)),
        {
          as: "json",
          label: "the fastest kernel here",
          onProgress: (loaded, total) => progress("Tuning kernels", loaded, total),
        },
      );
      const variant = VARIANTS.find(({ name, size }) => name === tuned.name && size === tuned.size);
      // What is compiled from here on is recorded; what was recorded on an earlier visit is served.
      const detach = list?.attach();
      const pipeline = await compile(device, variant).finally(detach);
      await list?.ready;
      return new Neighbours(vectors, { board, pipeline, groups: variant.groups(count) }, { where: "WebGPU", ...tuned });
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
    return scoresOf(this.#vectors, question, passages.length);
  }
}

/** Starts to recreate the pipelines of earlier visits. Returns nothing without a cache or a device. */
export async function openPipelines(cache, device) {
  return cache && device ? pipelines(cache, device, "demo") : undefined;
}

function compile(device, variant) {
  const { compute, ...rest } = request(variant);
  const module = device.createShaderModule({ code: compute.module });
  return device.createComputePipelineAsync({ ...rest, compute: { ...compute, module } });
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
