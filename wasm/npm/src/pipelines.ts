import type { Cache } from "./cache.js";
import { invalid } from "./errors.js";
import { key } from "./key.js";
import { PipelineList, readList } from "./pipeline-list.js";
import { deviceFields } from "./webgpu.js";

/** Options of {@link pipelines} and {@link watchDevices}. */
export interface PipelinesOptions {
  /** The most pipelines in the list; the least recently used are dropped. 256 by default. */
  readonly max?: number;
  /** The number of pipelines to compile at a time. 8 by default. */
  readonly parallel?: number;
}

/**
 * Recreates the compute pipelines of earlier visits, asynchronously and in parallel, before the runtime
 * requests them.
 *
 * A page cannot store a compiled pipeline. It can store the pipeline's description, and compile it on the next
 * visit while the model is still being read, without blocking the page as `createComputePipeline` does. The
 * list belongs to the adapter and its features, and is stored in `cache` under `name`.
 *
 * Without a device (the browser has no WebGPU), the list is empty and records nothing, and {@link
 * PipelineList.available} is `false`.
 *
 * @throws WarmstartError `invalid_argument` if the name is empty or an option is not a whole number from 1
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
    throw invalid("The list of pipelines has no name; pass one, for example the model's.");
  const { max = 256, parallel = 8 } = options;
  for (const [what, count] of [
    ["max", max],
    ["parallel", parallel],
  ] as const) {
    if (!Number.isSafeInteger(count) || count < 1)
      throw invalid(`pipelines: ${what} is ${count}; pass a whole number from 1.`);
  }
  if (!device) return new PipelineList(undefined, { name, max, parallel, stored: [] });
  const place = { cache, key: key("warmstart.pipelines", 1, { name, ...deviceFields(device) }) };
  const stored = await readList(place);
  return new PipelineList({ device, ...place }, { name, max, parallel, stored });
}

/**
 * Attaches a list of pipelines to every device that the page requests from now on, for runtimes that create
 * their own device. Returns the lists, which grow with each device, and a function that stops watching.
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
