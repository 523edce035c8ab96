/** Data as JSON carries it. */
export type Plain = string | number | boolean | null | Plain[] | { [name: string]: Plain };

/** A compute pipeline as data, sufficient to recreate it on another device. */
export interface RecordedPipeline {
  /** What `createShaderModule` was given, without labels and hints. */
  readonly module: { readonly code: string; readonly [name: string]: Plain };
  /** What `createComputePipeline` was given under `compute`, without the module. */
  readonly compute: { readonly [name: string]: Plain };
  /** `"auto"`, or the pipeline layout with the structure of each bind group layout in place of the object. */
  readonly layout: "auto" | { readonly [name: string]: Plain };
}

/** The descriptor of a compute pipeline, with WGSL source as module or descriptors as layout if you like. */
export interface ComputePipelineRequest {
  /** The label, as in WebGPU. */
  readonly label?: string | undefined;
  /** The layout, as in WebGPU, or the descriptors of its bind group layouts, in order. */
  readonly layout: "auto" | GPUPipelineLayout | readonly (GPUBindGroupLayoutDescriptor | null)[];
  /** The stage, as in WebGPU; `module` may also be WGSL source. */
  readonly compute: {
    readonly module: string | GPUShaderModule;
    readonly entryPoint?: string | undefined;
    readonly constants?: Readonly<Record<string, number>> | undefined;
  };
}

/** Two descriptors of the same pipeline have the same signature. */
export function signature(recorded: RecordedPipeline): string {
  return JSON.stringify([recorded.module, recorded.compute, recorded.layout]);
}

/**
 * Records the descriptors of a device's objects, and recreates the objects from them.
 *
 * Objects without known data (a module created before the device was watched, a layout taken from a
 * pipeline) are not an error: pipelines that depend on them are not recorded.
 */
export class Structures {
  readonly #device: GPUDevice;
  readonly #create: Originals;
  readonly #modules = new WeakMap<GPUShaderModule, RecordedPipeline["module"]>();
  readonly #groups = new WeakMap<GPUBindGroupLayout, Plain>();
  readonly #layouts = new WeakMap<GPUPipelineLayout, { readonly [name: string]: Plain }>();
  readonly #made = new Map<string, object>();

  constructor(device: GPUDevice, create: Originals) {
    this.#device = device;
    this.#create = create;
  }

  /** Remembers the descriptor of a shader module. */
  sawModule(module: GPUShaderModule, descriptor: GPUShaderModuleDescriptor): void {
    const data = plainMembers(descriptor, ["label", "sourceMap", "hints", "compilationHints"]);
    if (typeof data?.["code"] === "string") this.#modules.set(module, data as RecordedPipeline["module"]);
  }

  /** Remembers what a bind group layout was made from. */
  sawGroup(group: GPUBindGroupLayout, descriptor: GPUBindGroupLayoutDescriptor): void {
    const data = plainGroup(descriptor);
    if (data !== undefined) this.#groups.set(group, data);
  }

  /** Remembers what a pipeline layout was made from. */
  sawLayout(layout: GPUPipelineLayout, descriptor: GPUPipelineLayoutDescriptor): void {
    const data = plainMembers(descriptor, ["label", "bindGroupLayouts"]);
    const groups: Plain[] = [];
    for (const group of descriptor.bindGroupLayouts) {
      const known = group === null || group === undefined ? null : this.#groups.get(group);
      if (known === undefined) return;
      groups.push(known);
    }
    if (data !== undefined) this.#layouts.set(layout, { ...data, bindGroupLayouts: groups });
  }

  /** The record of a descriptor, or `undefined` where it depends on something unknown. */
  describe(request: ComputePipelineRequest | GPUComputePipelineDescriptor): RecordedPipeline | undefined {
    if (Object.keys(request).some((name) => !["label", "layout", "compute"].includes(name))) return undefined;
    const { module: given } = request.compute;
    const module = typeof given === "string" ? { code: given } : this.#modules.get(given);
    const layout = this.#layout(request.layout);
    const compute = plainMembers(request.compute, ["module"]);
    return module && layout && compute && { module, compute, layout };
  }

  /** The shader module of this source, made once. */
  module(recorded: RecordedPipeline): GPUShaderModule {
    return this.#once("module", recorded.module, () => {
      const module = this.#create.createShaderModule(recorded.module as GPUShaderModuleDescriptor);
      this.#modules.set(module, recorded.module);
      return module;
    });
  }

  /** Forgets the objects that were made, so that the browser can free them. */
  clear(): void {
    this.#made.clear();
  }

  /** Creates a recorded pipeline. Rejects as `createComputePipelineAsync` does. */
  create(recorded: RecordedPipeline, label?: string): Promise<GPUComputePipeline> {
    // An invalid module or layout raises an error of its own. It must not reach a scope, or a listener, of
    // the page. The scope opens and closes without waiting in between, so that it holds nothing else.
    this.#device.pushErrorScope("validation");
    try {
      const layout = recorded.layout === "auto" ? "auto" : this.#pipelineLayout(recorded.layout);
      const compute = { ...recorded.compute, module: this.module(recorded) };
      return this.#create.createComputePipelineAsync({
        layout,
        compute,
        ...(label === undefined ? {} : { label }),
      });
    } catch (error) {
      return Promise.reject(error);
    } finally {
      this.#device.popErrorScope().catch(() => undefined);
    }
  }

  #layout(layout: ComputePipelineRequest["layout"]): RecordedPipeline["layout"] | undefined {
    if (layout === "auto") return "auto";
    if (!Array.isArray(layout)) return this.#layouts.get(layout as GPUPipelineLayout);
    const groups = (layout as (GPUBindGroupLayoutDescriptor | null)[]).map((group) =>
      group === null ? null : plainGroup(group),
    );
    return groups.some((group) => group === undefined) ? undefined : { bindGroupLayouts: groups as Plain[] };
  }

  #pipelineLayout(recorded: { readonly [name: string]: Plain }): GPUPipelineLayout {
    return this.#once("layout", recorded, () => {
      const groups = (recorded["bindGroupLayouts"] as Plain[]).map((group) =>
        group === null
          ? null
          : this.#once("group", group, () =>
              this.#create.createBindGroupLayout(group as unknown as GPUBindGroupLayoutDescriptor),
            ),
      );
      return this.#create.createPipelineLayout({ ...recorded, bindGroupLayouts: groups });
    });
  }

  #once<T extends object>(kind: string, data: unknown, make: () => T): T {
    const name = kind + JSON.stringify(data);
    const made = (this.#made.get(name) as T | undefined) ?? make();
    this.#made.set(name, made);
    return made;
  }
}

/** The original methods of a device. */
export type Originals = Pick<
  GPUDevice,
  | "createShaderModule"
  | "createBindGroupLayout"
  | "createPipelineLayout"
  | "createComputePipeline"
  | "createComputePipelineAsync"
>;

/** A recorded pipeline and the time of its last request, in milliseconds since 1970. */
export interface ListedPipeline {
  readonly recorded: RecordedPipeline;
  readonly used: number;
}

/** Encodes the list as text. A source that several pipelines share is written once. */
export function encodeList(list: readonly ListedPipeline[]): string {
  const modules = new Map<string, number>();
  const pipelines = list.map(({ recorded, used }) => {
    const module = JSON.stringify(recorded.module);
    const index = modules.get(module) ?? modules.size;
    modules.set(module, index);
    return { module: index, compute: recorded.compute, layout: recorded.layout, used };
  });
  return JSON.stringify({
    version: VERSION,
    modules: [...modules.keys()].map((module) => JSON.parse(module)),
    pipelines,
  });
}

/** Decodes the output of `encodeList`. Ignores entries that it does not understand. */
export function decodeList(text: string): ListedPipeline[] {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return [];
  }
  if (!isObject(data) || data["version"] !== VERSION) return [];
  const { modules, pipelines } = data;
  if (!Array.isArray(modules) || !Array.isArray(pipelines)) return [];
  return pipelines.flatMap((row: unknown) => {
    if (!isObject(row) || typeof row["used"] !== "number" || !isObject(row["compute"])) return [];
    const module: unknown = modules[row["module"] as number];
    const layout = row["layout"];
    const known = layout === "auto" || (isObject(layout) && Array.isArray(layout["bindGroupLayouts"]));
    if (!isObject(module) || typeof module["code"] !== "string" || !known) return [];
    return [{ recorded: { module, compute: row["compute"], layout } as RecordedPipeline, used: row["used"] }];
  });
}

const VERSION = 1;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function plainGroup(descriptor: GPUBindGroupLayoutDescriptor): Plain | undefined {
  const data = plainMembers(descriptor, ["label", "entries"]);
  const entries = plain([...descriptor.entries]);
  return data && entries && { ...data, entries };
}

/** Returns the members of a descriptor as data, without the omitted ones. */
function plainMembers(descriptor: object, leftOut: readonly string[]): { [name: string]: Plain } | undefined {
  const rest = Object.fromEntries(Object.entries(descriptor).filter(([name]) => !leftOut.includes(name)));
  return plain(rest) as { [name: string]: Plain } | undefined;
}

/** Copies data with sorted names; returns `undefined` if it cannot be represented in JSON. */
function plain(value: unknown): Plain | undefined {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? value : undefined;
  if (Array.isArray(value)) {
    const items = value.map(plain);
    return items.some((item) => item === undefined) ? undefined : (items as Plain[]);
  }
  if (typeof value !== "object") return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  const copy: { [name: string]: Plain } = {};
  for (const name of Object.keys(value as object).sort()) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined) continue;
    const data = plain(member);
    if (data === undefined) return undefined;
    copy[name] = data;
  }
  return copy;
}
