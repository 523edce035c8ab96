import type { Cache } from "./cache.js";
import { invalid, WarmstartError } from "./errors.js";
import type { Key } from "./key.js";
import {
  type ComputePipelineRequest,
  decodeList,
  encodeList,
  type ListedPipeline,
  type Originals,
  type RecordedPipeline,
  signature,
  Structures,
} from "./pipeline-record.js";

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

/** A list that records pipelines and recreates them on later visits. Created by `pipelines`. */
export class PipelineList {
  /** The name that the list was opened with. */
  readonly name: string;
  /** Whether there is a device. Without one, the list records and creates nothing. */
  readonly available: boolean;
  /** Resolves when all recorded pipelines are recreated or have failed. Never rejects. */
  readonly ready: Promise<void>;

  readonly #place: (Place & { readonly device: GPUDevice }) | undefined;
  readonly #originals: Originals | undefined;
  readonly #structures: Structures | undefined;
  readonly #max: number;
  /** By signature; the least recently used first. */
  readonly #entries = new Map<string, Entry>();
  readonly #dropped = new Set<string>();
  #created = 0;
  #used = 0;
  #failed = 0;
  #lost = false;
  #detach: (() => void) | undefined;
  #saving: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor(
    place: (Place & { readonly device: GPUDevice }) | undefined,
    settings: { name: string; max: number; parallel: number; stored: readonly ListedPipeline[] },
  ) {
    this.name = settings.name;
    this.available = place !== undefined;
    this.#place = place;
    this.#max = settings.max;
    if (place === undefined) {
      this.ready = Promise.resolve();
      return;
    }
    const { device } = place;
    this.#originals = originals(device);
    this.#structures = new Structures(device, this.#originals);
    void device.lost.then(() => this.#forget());
    for (const { recorded, used } of settings.stored) {
      this.#entries.set(signature(recorded), { recorded, used, pipeline: undefined, made: undefined });
    }
    this.#bound();
    const queue = [...this.#entries].reverse();
    this.ready = Promise.all(Array.from({ length: settings.parallel }, () => this.#work(queue))).then(() =>
      this.#structures?.clear(),
    );
  }

  /**
   * Returns a compute pipeline from the list, or creates and records it.
   *
   * `compute.module` may be WGSL source, and `layout` the descriptors of the bind group layouts, so that no
   * other object is needed. Rejects like `createComputePipelineAsync`.
   *
   * @throws WarmstartError `unsupported` without a device; `invalid_argument` if a layout or constant given
   *   as data cannot be recorded
   */
  computePipeline(request: ComputePipelineRequest): Promise<GPUComputePipeline> {
    if (!this.#structures || !this.#originals) {
      return Promise.reject(
        new WarmstartError("unsupported", "There is no WebGPU device; check `available` first."),
      );
    }
    const recorded = this.#describe(request);
    if (recorded === undefined) {
      if (typeof request.compute.module === "string" || Array.isArray(request.layout)) {
        return Promise.reject(
          invalid("The pipeline cannot be recorded; pass layouts as plain objects, and finite constants."),
        );
      }
      return this.#originals.createComputePipelineAsync(request as GPUComputePipelineDescriptor);
    }
    const structures = this.#structures;
    return this.#get(recorded, request.label, () => structures.create(recorded, request.label));
  }

  /**
   * Wraps the device's methods: records calls of `createComputePipelineAsync`, `createComputePipeline` and of
   * what they depend on, and serves them from the list. Call it before the runtime creates shader modules.
   * Calls that cannot be recorded reach the device unchanged. Returns a function that calls {@link detach}.
   */
  attach(): () => void {
    if (this.#place && !this.#detach) this.#detach = this.#watch(this.#place.device);
    return () => this.detach();
  }

  /** Restores the device's methods. */
  detach(): void {
    this.#detach?.();
    this.#detach = undefined;
  }

  /** Returns the counters of this list. */
  stats(): PipelineStats {
    return { recorded: this.#entries.size, created: this.#created, used: this.#used, failed: this.#failed };
  }

  /**
   * Stores the list now, and resolves with whether it is stored. The list also stores itself 300 milliseconds
   * after it changes. Pipelines that other tabs recorded in the meantime are kept.
   */
  async save(): Promise<boolean> {
    clearTimeout(this.#saving);
    this.#saving = undefined;
    if (!this.#place) return false;
    const all = new Map<string, ListedPipeline>();
    for (const listed of await readList(this.#place)) {
      const name = signature(listed.recorded);
      if (!this.#dropped.has(name)) all.set(name, listed);
    }
    for (const [name, { recorded, used }] of this.#entries) {
      all.set(name, { recorded, used: Math.max(used, all.get(name)?.used ?? 0) });
    }
    const list = [...all.values()].sort((one, other) => one.used - other.used);
    return this.#place.cache.put(this.#place.key, encodeList(withinBounds(list, this.#max)), {
      label: `compute pipelines of ${this.name}`,
      type: "application/json",
    });
  }

  /** Recreates recorded pipelines, most recently used first, until none is left. */
  async #work(queue: [string, Entry][]): Promise<void> {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [name, entry] = next;
      if (this.#lost || entry.made !== undefined || this.#entries.get(name) !== entry) continue;
      await this.#again(name, entry).then(
        () => this.#created++,
        () => undefined,
      );
    }
  }

  /** Recreates a pipeline of an earlier visit. Drops it if it no longer compiles. */
  #again(name: string, entry: Entry): Promise<GPUComputePipeline> {
    entry.made = (this.#structures as Structures).create(entry.recorded).then(
      (pipeline) => (entry.pipeline = pipeline),
      async (error: unknown) => {
        // Everything fails on a lost device, and the loss may be reported a moment later.
        await new Promise((resolve) => setTimeout(resolve));
        if (this.#lost) throw error;
        if (this.#entries.get(name) === entry) this.#entries.delete(name);
        this.#dropped.add(name);
        this.#failed++;
        this.#saveSoon();
        throw error;
      },
    );
    return entry.made;
  }

  async #get(
    recorded: RecordedPipeline,
    label: string | undefined,
    create: () => Promise<GPUComputePipeline>,
  ): Promise<GPUComputePipeline> {
    const name = signature(recorded);
    const entry = this.#entries.get(name);
    if (entry?.made !== undefined) {
      try {
        const pipeline = await entry.made;
        this.#touch(name, entry);
        this.#used++;
        if (label !== undefined) pipeline.label = label;
        return pipeline;
      } catch {
        // Fall through: the caller gets its own error, or a pipeline if another attempt succeeds.
      }
    }
    const made = create();
    const fresh: Entry = entry ?? { recorded, used: 0, pipeline: undefined, made: undefined };
    if (this.#lost) return made;
    fresh.made = made.then((pipeline) => (fresh.pipeline = pipeline));
    fresh.made.then(
      () => this.#touch(name, fresh),
      () => {
        fresh.made = undefined;
        if (this.#entries.get(name) === fresh) this.#entries.delete(name);
      },
    );
    this.#entries.set(name, fresh);
    return made;
  }

  /** Moves an entry to the end, as the most recently used. */
  #touch(name: string, entry: Entry): void {
    if (this.#lost) return;
    entry.used = Date.now();
    this.#dropped.delete(name);
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    this.#bound();
    this.#saveSoon();
  }

  #bound(): void {
    for (const name of this.#entries.keys()) {
      if (this.#entries.size <= this.#max) return;
      this.#entries.delete(name);
    }
  }

  #saveSoon(): void {
    if (this.#saving !== undefined) return;
    this.#saving = setTimeout(() => void this.save().catch(() => undefined), SAVE_AFTER_MS);
  }

  #describe(request: ComputePipelineRequest | GPUComputePipelineDescriptor): RecordedPipeline | undefined {
    try {
      return this.#structures?.describe(request);
    } catch {
      return undefined; // A malformed descriptor: the browser reports the error.
    }
  }

  /** Forgets the pipelines of a lost device, which are useless. The stored list stays. */
  #forget(): void {
    this.#lost = true;
    this.#structures?.clear();
    this.#entries.clear();
  }

  #watch(device: GPUDevice): () => void {
    const originals = this.#originals as Originals;
    const structures = this.#structures as Structures;
    const noted = (note: () => void): void => {
      try {
        note();
      } catch {
        // An object that cannot be described is not recorded.
      }
    };
    const watching: Originals = {
      createShaderModule: (descriptor) => {
        const module = originals.createShaderModule(descriptor);
        noted(() => structures.sawModule(module, descriptor));
        return module;
      },
      createBindGroupLayout: (descriptor) => {
        const group = originals.createBindGroupLayout(descriptor);
        noted(() => structures.sawGroup(group, descriptor));
        return group;
      },
      createPipelineLayout: (descriptor) => {
        const layout = originals.createPipelineLayout(descriptor);
        noted(() => structures.sawLayout(layout, descriptor));
        return layout;
      },
      createComputePipeline: (descriptor) => {
        const recorded = this.#describe(descriptor);
        if (recorded === undefined) return originals.createComputePipeline(descriptor);
        const name = signature(recorded);
        const entry = this.#entries.get(name) ?? { recorded, used: 0, pipeline: undefined, made: undefined };
        if (entry.pipeline !== undefined) this.#used++;
        // Its validity is unknown until later, so it is not kept for other requests.
        const pipeline = entry.pipeline ?? originals.createComputePipeline(descriptor);
        if (!this.#dropped.has(name)) this.#touch(name, entry);
        if (descriptor.label !== undefined) pipeline.label = descriptor.label;
        return pipeline;
      },
      createComputePipelineAsync: (descriptor) => {
        const recorded = this.#describe(descriptor);
        if (recorded === undefined) return originals.createComputePipelineAsync(descriptor);
        return this.#get(recorded, descriptor.label, () => originals.createComputePipelineAsync(descriptor));
      },
    };
    const own = device as unknown as Record<string, unknown>;
    const before = Object.keys(watching).map(
      (name) => [name, Object.getOwnPropertyDescriptor(device, name)] as const,
    );
    Object.assign(own, watching);
    return () => {
      for (const [name, property] of before) {
        // Another wrapper was installed over this one.
        if (own[name] !== watching[name as keyof Originals]) continue;
        delete own[name];
        if (property) Object.defineProperty(device, name, property);
      }
    };
  }
}

/** The delay of saving, so that a runtime's many pipelines are one write. */
const SAVE_AFTER_MS = 300;
/** The most WGSL that a list keeps, in UTF-16 code units. */
const MAX_SOURCE = 8 * 1024 * 1024;

/** The cache and the key of a list. */
export interface Place {
  readonly cache: Cache;
  readonly key: Key;
}

interface Entry {
  readonly recorded: RecordedPipeline;
  used: number;
  /** The pipeline, once it is known to be valid. */
  pipeline: GPUComputePipeline | undefined;
  /** The pipeline, ready or being created. */
  made: Promise<GPUComputePipeline> | undefined;
}

/** Reads the stored list; empty if it cannot be read. */
export async function readList({ cache, key }: Place): Promise<ListedPipeline[]> {
  const text = await cache.get(key, "text");
  return text === undefined ? [] : decodeList(text);
}

/** Returns the end of the list that fits within the bounds. */
function withinBounds(list: readonly ListedPipeline[], max: number): ListedPipeline[] {
  const kept: ListedPipeline[] = [];
  let room = MAX_SOURCE;
  for (const listed of [...list].reverse().slice(0, max)) {
    room -= listed.recorded.module.code.length;
    if (room < 0) break;
    kept.unshift(listed);
  }
  return kept;
}

function originals(device: GPUDevice): Originals {
  return {
    createShaderModule: device.createShaderModule.bind(device),
    createBindGroupLayout: device.createBindGroupLayout.bind(device),
    createPipelineLayout: device.createPipelineLayout.bind(device),
    createComputePipeline: device.createComputePipeline.bind(device),
    createComputePipelineAsync: device.createComputePipelineAsync.bind(device),
  };
}
