import type { Cache } from "./cache.js";
import { invalid } from "./errors.js";
import { key } from "./key.js";
import { PipelineList, readList } from "./pipeline-list.js";
import { deviceFields } from "./webgpu.js";

/** How {@link pipelines} works. */
export interface PipelinesOptions {
  /** The most pipelines that are kept; those go first that were not asked for longest. 256 if left out. */
  readonly max?: number;
  /** How many pipelines are compiled at a time. 8 if left out. */
  readonly parallel?: number;
}

/**
 * The compute pipelines of earlier visits, created again asynchronously and in parallel before the runtime
 * asks.
 *
 * A page cannot keep a compiled pipeline. It can keep what to compile, and begin with it at once: while the
 * model is still read, and without blocking the page as `createComputePipeline` does. The list belongs to the
 * adapter with its features, and is kept in `cache` under `name`.
 *
 * Without a device (no WebGPU here) the list is empty, watches nothing and says so in {@link
 * PipelineList.available}.
 *
 * @example
 * ```ts
 * const list = await pipelines(cache, device, "my-model");
 * list.attach(); // from now on, the calls of an unmodified runtime are recorded, and served from the list
 * ```
 */
export async function pipelines(
  cache: Cache,
  device: GPUDevice | null | undefined,
  name: string,
  options: PipelinesOptions = {},
): Promise<PipelineList> {
  if (typeof name !== "string" || name === "")
    throw invalid("A list of pipelines needs a name, for example the model's.");
  const { max = 256, parallel = 8 } = options;
  for (const [what, count] of [
    ["max", max],
    ["parallel", parallel],
  ] as const) {
    if (!Number.isSafeInteger(count) || count < 1)
      throw invalid(`pipelines: ${what} is ${count}; give a whole number from 1.`);
  }
  if (!device) return new PipelineList(undefined, { name, max, parallel, stored: [] });
  const place = { cache, key: key("warmstart.pipelines", 1, { name, ...deviceFields(device) }) };
  const stored = await readList(place);
  return new PipelineList({ device, ...place }, { name, max, parallel, stored });
}

/**
 * Keeps a list of pipelines for every device that is requested from now on, for runtimes that make their own
 * device. Returns the lists as they come, and a function that ends it.
 *
 * @example
 * ```ts
 * const watched = watchDevices(cache, "my-model");
 * const engine = await CreateMLCEngine("…"); // requests a device and compiles its pipelines
 * console.log(watched.lists[0]?.stats());
 * ```
 */
export function watchDevices(
  cache: Cache,
  name: string,
  options: PipelinesOptions = {},
): { readonly lists: readonly PipelineList[]; stop(): void } {
  const lists: PipelineList[] = [];
  const adapter = (globalThis as { GPUAdapter?: { prototype: GPUAdapter } }).GPUAdapter?.prototype;
  if (adapter === undefined) return { lists, stop: () => undefined };
  const original = adapter.requestDevice;
  const watching = async function (this: GPUAdapter, descriptor?: GPUDeviceDescriptor): Promise<GPUDevice> {
    const device = await original.call(this, descriptor);
    const list = await pipelines(cache, device, name, options);
    list.attach();
    lists.push(list);
    return device;
  };
  adapter.requestDevice = watching;
  return {
    lists,
    stop() {
      if (adapter.requestDevice === watching) adapter.requestDevice = original;
      for (const list of lists) list.detach();
    },
  };
}
