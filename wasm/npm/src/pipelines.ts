import type { Cache } from "./cache.js";
import { invalid } from "./errors.js";
import { key, type Key } from "./key.js";
import { attempt, encodeList, type RecordedPipeline, Recorder, type Watched } from "./pipeline-record.js";
import { deviceFields } from "./webgpu.js";

/** Options of {@link pipelines} and {@link watchDevices}. */
export interface PipelinesOptions {
  /**
   * The most pipelines in the list. Those that were not used since the list last changed are dropped first. 256
   * by default.
   */
  readonly max?: number;
}

/** Counters of a {@link PipelineList}. */
export interface PipelineStats {
  /** Pipelines in the list. */
  readonly recorded: number;
  /** Pipelines that were recreated before they were requested. */
  readonly created: number;
  /** Requests that were served by a pipeline that was ready or already being created. */
  readonly used: number;
  /** Recorded pipelines that no longer compile, and were dropped. */
  readonly failed: number;
}

/**
 * Recreates the compute pipelines of earlier visits, asynchronously and in parallel, before the runtime
 * requests them.
 *
 * A page cannot store a compiled pipeline. It can store the pipeline's description, and compile it on the next
 * visit while the model is still being read, without blocking the page as `createComputePipeline` does. The
 * list belongs to the adapter and its features, and is stored in `cache` under `name`.
 *
 * @throws WarmstartError `invalid_argument` if the name is empty, `max` is not a whole number from 1 or there is no
 *   device
 *
 * @example
 * ```ts
 * const list = await pipelines(cache, device, "my-model");
 * list.attach(); // from now on, the calls of an unmodified runtime are recorded, and served from the list
 * ```
 */
export async function pipelines(
  cache: Cache,
  device: GPUDevice,
  name: string,
  options: PipelinesOptions = {},
): Promise<PipelineList> {
  if (typeof name !== "string" || name === "")
    throw invalid("The list of pipelines has no name; pass one, for example the model's.");
  const { max = 256 } = options;
  if (!Number.isSafeInteger(max) || max < 1) throw invalid(`max is ${max}; pass a whole number from 1.`);
  const fields = { name, ...deviceFields(device) };
  const [list, uses] = [key("warmstart.pipelines", 2, fields), key("warmstart.pipelines.uses", 2, fields)];
  const [text, noted] = await cache.getMany([list, uses], "text");
  return new PipelineList({ name, max, cache, device, recorder: new Recorder(device), list, uses, text, noted });
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
  const detaching: (() => void)[] = [];
  const adapter = (globalThis as { GPUAdapter?: { prototype: GPUAdapter } }).GPUAdapter?.prototype;
  if (adapter === undefined) return { lists, stop: () => undefined };
  const original = adapter.requestDevice;
  const watching = async function (this: GPUAdapter, descriptor?: GPUDeviceDescriptor): Promise<GPUDevice> {
    const device = await original.call(this, descriptor);
    const list = await pipelines(cache, device, name, options);
    detaching.push(list.attach());
    lists.push(list);
    return device;
  };
  adapter.requestDevice = watching;
  return {
    lists,
    stop() {
      if (adapter.requestDevice === watching) adapter.requestDevice = original;
      for (const detach of detaching) detach();
    },
  };
}

/** A list that records pipelines and recreates them on later visits. Created by {@link pipelines}. */
export class PipelineList {
  /** Resolves when all recorded pipelines are recreated or have failed. Never rejects. */
  readonly ready: Promise<void>;

  readonly #context: ListContext;
  /** By name; what is dropped first comes first. */
  readonly #entries = new Map<string, Entry>();
  /** The names of the stored list, in its order, and its id. */
  #listed = new Set<string>();
  #id = 0;
  #changed = false;
  #saving: ReturnType<typeof setTimeout> | undefined;
  /** The stored record of uses, and whether this visit has scheduled the next one. */
  #noted: string | undefined;
  #noting = false;
  readonly #failed = new Set<string>();
  readonly #counts = { created: 0, used: 0 };
  #lost = false;
  #detach: (() => void) | undefined;

  /** @internal */
  constructor(context: ListContext) {
    this.#context = context;
    this.#noted = context.noted;
    const { recorder, device } = context;
    void device.lost.then(() => this.#forget(recorder));
    const { id, pipelines } = recorder.decodeList(context.text);
    const used = decodeUses(context.noted, id);
    const entries: Entry[] = pipelines.map((recorded, at) => ({ recorded, isUsed: used[at] === USED }));
    entries.sort((one, other) => Number(one.isUsed) - Number(other.isUsed));
    for (const entry of entries) this.#entries.set(entry.recorded.name, entry);
    this.#id = id;
    this.#listed = new Set(pipelines.map(({ name }) => name));
    this.#bound();
    // The workers share it.
    const queue = [...this.#entries.values()].reverse().values();
    const workers = Array.from({ length: AT_A_TIME }, () => this.#work(recorder, queue));
    this.ready = Promise.all(workers).then(() => recorder.clear());
  }

  /**
   * Wraps the device's methods: records calls of `createComputePipelineAsync`, `createComputePipeline` and of
   * what they depend on, and serves them from the list. Call it before the runtime creates shader modules.
   * Calls that cannot be recorded reach the device unchanged. Returns a function that restores the methods.
   */
  attach(): () => void {
    return (this.#detach ??= this.#watch(this.#context));
  }

  /** Returns the counters of this list. */
  stats(): PipelineStats {
    return { ...this.#counts, recorded: this.#entries.size, failed: this.#failed.size };
  }

  /**
   * Stores the list now if it changed, or else notes which pipelines were used since then, in one byte each.
   * Resolves with whether the list is stored. The list saves itself 300 milliseconds after it changes, and
   * notes uses once, 3 seconds after the first. Pipelines that other tabs recorded in the meantime are kept.
   */
  async save(): Promise<boolean> {
    clearTimeout(this.#saving);
    this.#saving = undefined;
    const { name, max, cache, recorder, list, uses } = this.#context;
    if (!this.#changed || this.#lost) {
      // A lost device has no entries, and so no uses.
      const used = Array.from(this.#listed, (name) => (this.#entries.get(name)?.isUsed ? USED : "-")).join("");
      const text = JSON.stringify({ list: this.#id, used });
      const label = `uses of the pipelines of ${name}`;
      const isNew = used.includes(USED) && text !== this.#noted;
      if (isNew && (await cache.put(uses, text, { label }))) this.#noted = text;
      return cache.has(list);
    }
    // It is reset before the write, during which there may be other changes.
    this.#changed = false;
    const { pipelines: stored } = recorder.decodeList(await cache.get(list, "text"));
    const ours = Array.from(this.#entries.values(), ({ recorded }) => recorded);
    const others = stored.filter(({ name }) => !this.#listed.has(name) && !this.#entries.has(name));
    const pipelines = [...ours, ...others].slice(-max);
    const id = Date.now();
    for (const entry of this.#entries.values()) entry.isUsed = false;
    const options = { label: `compute pipelines of ${name}`, type: "application/json" };
    const isStored = await cache.put(list, encodeList({ id, pipelines }), options);
    if (isStored) {
      this.#id = id;
      this.#listed = new Set(pipelines.map(({ name }) => name));
    }
    this.#changed ||= !isStored;
    return isStored;
  }

  /** Recreates recorded pipelines, most recently used first, until none is left. */
  async #work(recorder: Recorder, queue: Iterable<Entry>): Promise<void> {
    for (const entry of queue) {
      if (this.#lost || entry.made || this.#entries.get(entry.recorded.name) !== entry) continue;
      entry.made = this.#recreate(recorder, entry);
      await entry.made.catch(() => undefined);
    }
  }

  /** Recreates a pipeline of an earlier visit. Drops it if it no longer compiles. */
  async #recreate(recorder: Recorder, entry: Entry): Promise<GPUComputePipeline> {
    const { recorded } = entry;
    try {
      entry.pipeline = await recorder.create(recorded);
      this.#counts.created++;
      return entry.pipeline;
    } catch (error) {
      // Everything fails on a lost device, and the loss may be reported a moment later.
      await new Promise((resolve) => setTimeout(resolve));
      if (this.#lost) throw error;
      this.#entries.delete(recorded.name);
      this.#failed.add(recorded.name);
      this.#change();
      throw error;
    }
  }

  async #get(
    recorded: RecordedPipeline,
    label: string | undefined,
    create: () => Promise<GPUComputePipeline>,
  ): Promise<GPUComputePipeline> {
    const { name } = recorded;
    const entry = this.#entries.get(name) ?? { recorded, isUsed: false };
    if (entry.made) {
      const pipeline = await entry.made.catch(() => undefined);
      if (pipeline) return this.#serve(entry, pipeline, label);
      // The caller gets its own error, or a pipeline if another attempt succeeds.
    }
    entry.made = create();
    if (!this.#lost) this.#entries.set(name, entry);
    try {
      entry.pipeline = await entry.made;
      this.#use(entry);
      return entry.pipeline;
    } catch (error) {
      entry.made = undefined;
      if (this.#entries.get(name) === entry) this.#entries.delete(name);
      throw error;
    }
  }

  #serve(entry: Entry, pipeline: GPUComputePipeline, label: string | undefined): GPUComputePipeline {
    this.#counts.used++;
    this.#use(entry);
    if (label !== undefined) pipeline.label = label;
    return pipeline;
  }

  /** Moves an entry to the end, as the most recently used. */
  #use(entry: Entry): void {
    if (this.#lost) return;
    const { name } = entry.recorded;
    entry.isUsed = true;
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    this.#bound();
    if (this.#changed || !this.#listed.has(name)) this.#change();
    else if (!this.#noting) {
      this.#noting = true;
      this.#saveIn(NOTE_AFTER_MS);
    }
  }

  #bound(): void {
    for (const name of this.#entries.keys()) {
      if (this.#entries.size <= this.#context.max) return;
      this.#entries.delete(name);
    }
  }

  #change(): void {
    this.#changed = true;
    this.#saving ??= this.#saveIn(SAVE_AFTER_MS);
  }

  #saveIn(milliseconds: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => void this.save().catch(() => undefined), milliseconds);
  }

  /** Forgets the pipelines of a lost device, which are useless. The stored list stays. */
  #forget(recorder: Recorder): void {
    this.#lost = true;
    recorder.clear();
    this.#entries.clear();
  }

  #watch({ device, recorder }: ListContext): () => void {
    const { originals } = recorder;
    const watching: Watched = {
      ...recorder.watched(),
      createComputePipeline: (descriptor) => {
        const recorded = recorder.describe(descriptor);
        if (!recorded) return originals.createComputePipeline(descriptor);
        const entry = this.#entries.get(recorded.name) ?? { recorded, isUsed: false };
        if (entry.pipeline) return this.#serve(entry, entry.pipeline, descriptor.label);
        const pipeline = originals.createComputePipeline(descriptor);
        // Its validity is unknown until later, so it is recorded, and not kept for other requests.
        if (!this.#failed.has(recorded.name)) this.#use(entry);
        return pipeline;
      },
      createComputePipelineAsync: async (descriptor) => {
        const recorded = recorder.describe(descriptor);
        const create = () => originals.createComputePipelineAsync(descriptor);
        return recorded ? this.#get(recorded, descriptor.label, create) : create();
      },
    };
    // The methods of a device are its prototype's; its own are those of another wrapper.
    const own: Partial<Watched> = device;
    const before = { ...own };
    Object.assign(own, watching);
    return () => {
      this.#detach = undefined;
      for (const name of Object.keys(watching) as (keyof Watched)[]) {
        if (own[name] !== watching[name]) continue;
        if (name in before) Object.assign(own, { [name]: before[name] });
        else delete own[name];
      }
    };
  }
}

/** The delay of saving, so that a runtime's many pipelines are one write. */
const SAVE_AFTER_MS = 300;
/** The delay of noting uses, so that most uses of a visit are one write. */
const NOTE_AFTER_MS = 3000;
/** The number of pipelines that are compiled at a time. */
const AT_A_TIME = 8;
/** Marks a pipeline in the record of uses. */
const USED = "+";

/** The device, the cache, and the keys and texts of the list and of its record of uses. */
interface ListContext {
  readonly name: string;
  readonly max: number;
  readonly device: GPUDevice;
  readonly recorder: Recorder;
  readonly cache: Cache;
  readonly list: Key;
  readonly uses: Key;
  readonly text: string | undefined;
  readonly noted: string | undefined;
}

interface Entry {
  readonly recorded: RecordedPipeline;
  /** Whether it was used since the list was written. */
  isUsed: boolean;
  /** The pipeline, ready or being created. */
  made?: Promise<GPUComputePipeline> | undefined;
  /** The pipeline, once it is known to be valid. */
  pipeline?: GPUComputePipeline;
}

/** Returns the marks of a list's pipelines. Any other text, and the uses of another list, are none. */
function decodeUses(text = "{}", id: number): string {
  const { list, used } = attempt(() => JSON.parse(text)) ?? {};
  return list === id && typeof used === "string" ? used : "";
}
