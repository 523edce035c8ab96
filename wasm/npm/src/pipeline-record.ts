/** A text of which a recorder has one object, so that its id can stand for it. */
interface Part {
  readonly id: number;
  readonly text: string;
}

/** A compute pipeline as data, sufficient to recreate it on another device. */
export interface RecordedPipeline {
  /** Equal for two descriptors of the same pipeline, in one recorder. */
  readonly name: string;
  /** The WGSL. */
  readonly module: Part;
  /** JSON: `"auto"`, or the pipeline layout with the descriptors of its bind group layouts. */
  readonly layout: Part;
  /** JSON: what `createComputePipeline` was given under `compute`, without the module. */
  readonly compute: string;
}

/** A stored list of pipelines, in the order in which they are dropped. */
interface RecordedList {
  /** Matches the `list` of the record of uses that belongs to this list. */
  readonly id: number;
  readonly pipelines: readonly RecordedPipeline[];
}

const WATCHED = [
  "createShaderModule",
  "createBindGroupLayout",
  "createPipelineLayout",
  "createComputePipeline",
  "createComputePipelineAsync",
] as const;

/** The methods of a device that are watched. */
export type Watched = Pick<GPUDevice, (typeof WATCHED)[number]>;

/** Records the descriptors of a device's objects, and recreates pipelines from them. */
export class Recorder {
  /** The original methods of the device. */
  readonly originals: Watched;
  readonly #device: GPUDevice;
  readonly #parts = new Map<string, Part>();
  #lastId = 0;
  readonly #modules = new WeakMap<GPUShaderModule, Part>();
  readonly #groups = new WeakMap<GPUBindGroupLayout, string>();
  readonly #layouts = new WeakMap<GPUPipelineLayout, Part>();
  readonly #made = new Map<Part, object>();

  constructor(device: GPUDevice) {
    this.#device = device;
    this.originals = Object.fromEntries(
      WATCHED.map((name) => [name, device[name].bind(device)]),
    ) as unknown as Watched;
  }

  /** Returns methods that remember what objects are made from, so that pipelines of them can be described. */
  watched(): Omit<Watched, "createComputePipeline" | "createComputePipelineAsync"> {
    const watch =
      <D, O>(create: (descriptor: D) => O, note: (object: O, descriptor: D) => void) =>
      (descriptor: D): O => {
        const object = create(descriptor);
        // Pipelines of an object that cannot be described are not recorded.
        attempt(() => note(object, descriptor));
        return object;
      };
    return {
      createShaderModule: watch(this.originals.createShaderModule, (module, descriptor) => {
        const known = ["label", "code", "sourceMap", "hints", "compilationHints"];
        if (hasOnly(descriptor, known)) this.#modules.set(module, this.#part(descriptor.code));
      }),
      createBindGroupLayout: watch(this.originals.createBindGroupLayout, (group, descriptor) => {
        this.#groups.set(group, json({ ...descriptor, label: undefined, entries: [...descriptor.entries] }));
      }),
      createPipelineLayout: watch(this.originals.createPipelineLayout, (layout, descriptor) => {
        const bindGroupLayouts = Array.from(descriptor.bindGroupLayouts, (group) => {
          // JSON.parse throws for an unknown group.
          return group && JSON.parse(this.#groups.get(group) as string);
        });
        this.#layouts.set(layout, this.#part(json({ ...descriptor, label: undefined, bindGroupLayouts })));
      }),
    };
  }

  /**
   * Returns the record of a descriptor; `undefined` if it is malformed, has values that JSON cannot represent, or
   * depends on an object whose data is unknown: a module created before the device was watched, or a layout
   * taken from a pipeline.
   */
  describe(descriptor: GPUComputePipelineDescriptor): RecordedPipeline | undefined {
    return attempt(() => {
      if (!hasOnly(descriptor, ["label", "layout", "compute"])) return undefined;
      const { module: given, ...stage } = descriptor.compute;
      const module = this.#modules.get(given);
      const layout = descriptor.layout === "auto" ? this.#part(AUTO) : this.#layouts.get(descriptor.layout);
      return module && layout && recorded(module, layout, json(stage));
    });
  }

  /** Creates a recorded pipeline. Rejects as `createComputePipelineAsync` does. */
  async create(pipeline: RecordedPipeline): Promise<GPUComputePipeline> {
    const { createShaderModule, createBindGroupLayout, createPipelineLayout } = this.originals;
    const data = JSON.parse(pipeline.layout.text);
    const compute = JSON.parse(pipeline.compute);
    // An invalid module or layout raises an error of its own. It must not reach a scope, or a listener, of
    // the page. The scope opens and closes without waiting in between, so that it holds nothing else.
    this.#device.pushErrorScope("validation");
    try {
      const layout = this.#once(pipeline.layout, () => {
        if (data === "auto") return data;
        const groups = data.bindGroupLayouts.map(
          (group: GPUBindGroupLayoutDescriptor | null) => group && createBindGroupLayout(group),
        );
        return createPipelineLayout({ ...data, bindGroupLayouts: groups });
      });
      const module = this.#once(pipeline.module, () => createShaderModule({ code: pipeline.module.text }));
      return this.originals.createComputePipelineAsync({ layout, compute: { ...compute, module } });
    } finally {
      this.#device.popErrorScope().catch(() => undefined);
    }
  }

  /** Forgets the modules and layouts that were made, so that the browser can free them. */
  clear(): void {
    this.#made.clear();
  }

  /** Decodes the output of `encodeList`. Any other text is an empty list. */
  decodeList(text = "{}"): RecordedList {
    const decoded = attempt(() => {
      const { id, modules, pipelines } = JSON.parse(text);
      const decode = ({ module, layout, compute }: Row) =>
        recorded(this.#part(modules[module]), this.#part(layout), compute);
      return { id, pipelines: pipelines.map(decode) };
    });
    return decoded ?? { id: 0, pipelines: [] };
  }

  #part(text: string): Part {
    let part = this.#parts.get(text);
    if (part === undefined) {
      if (typeof text !== "string") throw new TypeError(`This is of type ${typeof text}; pass a text.`);
      // A page that generates shaders without end must not fill the memory.
      if (this.#parts.size === MAX_PARTS) this.#parts.clear();
      part = { id: (this.#lastId += 1), text };
      this.#parts.set(text, part);
    }
    return part;
  }

  #once<T extends object>(part: Part, make: () => T): T {
    const made = (this.#made.get(part) as T | undefined) ?? make();
    this.#made.set(part, made);
    return made;
  }
}

/** A pipeline of a stored list. `module` is an index into the list's modules. */
interface Row {
  readonly module: number;
  readonly layout: string;
  readonly compute: string;
}

/** The prototypes of what JSON can represent. */
const PLAIN = new Set([null, Object.prototype, Array.prototype]);
const AUTO = JSON.stringify("auto");
const MAX_PARTS = 10_000;

/** Encodes a list as text. A source that several pipelines share is written once. */
export function encodeList({ id, pipelines }: RecordedList): string {
  const modules = [...new Set(pipelines.map(({ module }) => module))];
  const rows = pipelines.map(({ module, layout, compute }): Row => {
    return { module: modules.indexOf(module), layout: layout.text, compute };
  });
  return JSON.stringify({ id, modules: modules.map(({ text }) => text), pipelines: rows });
}

/** Returns the result of `work`, or `undefined` if it throws. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function recorded(module: Part, layout: Part, compute: string): RecordedPipeline {
  return { name: `${module.id} ${layout.id} ${compute}`, module, layout, compute };
}

function hasOnly(descriptor: object, names: readonly string[]): boolean {
  return Object.keys(descriptor).every((name) => names.includes(name));
}

/** Returns JSON. Throws for values that it cannot represent exactly. */
function json(value: unknown): string {
  return JSON.stringify(value, (name, member) => {
    const isInexact = typeof member === "number" && (!Number.isFinite(member) || Object.is(member, -0));
    const isOther = typeof member === "object" && member !== null && !PLAIN.has(Object.getPrototypeOf(member));
    if (isInexact || isOther || typeof member === "function") throw new TypeError(name);
    return member as unknown;
  });
}
