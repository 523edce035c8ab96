import { launchEngine, type LaunchEngine } from "./launch.js";
import { invalid } from "./errors.js";

/** A kernel and a task with their id and value. */
export interface Registered<Value> {
  /** The id in the code, from 1 to 4294967295. */
  readonly id: number;
  /** The name of the kernel. */
  readonly kernel: string;
  /** The number of the task, a signed 32-bit integer. */
  readonly task: number;
  /** The value that was registered with them. */
  readonly value: Value;
}

/**
 * Maps ids to kernels and tasks. Generated code writes its id, a 32-bit number, when it fails: for example on
 * an index out of bounds or a buffer that is too short. The ids are the same in every process and in Rust, so
 * code that was compiled elsewhere keeps its meaning.
 *
 * An id is a hash of the kernel's name and the task. Several kernels may have the same id, so an id alone is
 * a hint; {@link Registry.verify} looks up an id together with its kernel and task.
 *
 * @example
 * const registry = new Registry<GPUComputePipeline>();
 * const id = registry.register("compute_grad", 3, pipeline); // bake it into the shader
 * // ... the shader wrote an id into its error buffer:
 * const [found, ...others] = registry.resolve(written);
 * if (found && others.length === 0) console.log(`out of bounds in ${found.kernel}, task ${found.task}`);
 */
export class Registry<Value = undefined> {
  #ids: InstanceType<LaunchEngine["Registry"]> = new (launchEngine().Registry)();
  /** By slot. */
  #rows: (Registered<Value> | undefined)[] = [];
  #free: number[] = [];

  /** The number of registered rows: a kernel and task with several ids count once for each id. */
  get size(): number {
    return this.#rows.length - this.#free.length;
  }

  /**
   * Returns the id to bake into code that is about to be compiled. A known kernel and task keep their first
   * id, and get the new value.
   *
   * @param task a signed 32-bit integer
   * @throws WarmstartError `invalid_argument` if the kernel's name is empty, if the task is not a 32-bit
   *   integer, or if all 256 ids of the kernel and task are taken
   */
  register(kernel: string, task: number, value: Value): number {
    checkPair(kernel, task);
    const known = this.#known(0, kernel, task, value);
    if (known) return known.id;
    const id = this.#claim(0, kernel, task, value);
    if (id === 0)
      throw invalid(`All ids of the kernel "${kernel}", task ${task} are taken; remove kernels that are unloaded.`);
    return id;
  }

  /**
   * Registers the id that loaded code already contains. Returns `"alone"` if only this kernel and task have
   * the id, or `"shared"` if others have it too.
   *
   * @throws WarmstartError `invalid_argument` if the id cannot belong to this kernel and task: then the code
   *   was damaged or renamed, and must be recompiled
   */
  adopt(id: number, kernel: string, task: number, value: Value): "alone" | "shared" {
    checkPair(kernel, task);
    checkId(id);
    if (!this.#known(id, kernel, task, value) && this.#claim(id, kernel, task, value) === 0) {
      throw invalid(`${hex(id)} is not an id of the kernel "${kernel}", task ${task}; recompile it.`);
    }
    return this.#ids.slots(id).length > 1 ? "shared" : "alone";
  }

  /** Returns all kernels and tasks with this id, ordered by name and task; empty if the id is unknown. */
  resolve(id: number): Registered<Value>[] {
    const rows = Array.from(this.#ids.slots(id), (slot) => this.#rows[slot] as Registered<Value>);
    return rows.sort((one, other) => order(one.kernel, other.kernel) || one.task - other.task);
  }

  /** Returns what is registered under exactly this id, kernel and task, if anything. */
  verify(id: number, kernel: string, task: number): Registered<Value> | undefined {
    return id === 0 ? undefined : this.#rows[this.#ids.slot(id, kernel, task)];
  }

  /** Returns the id that {@link register} returned for this kernel and task, if they are registered. */
  idOf(kernel: string, task: number): number | undefined {
    return this.#rows[this.#ids.slot(0, kernel, task)]?.id;
  }

  /**
   * Removes exactly this id, kernel and task, and returns what was registered. Call it only when no code with
   * this id can run any more: the id may be assigned to another kernel.
   */
  remove(id: number, kernel: string, task: number): Registered<Value> | undefined {
    const slot = this.#ids.remove(id, kernel, task);
    const row = this.#rows[slot];
    if (row === undefined) return undefined;
    this.#rows[slot] = undefined;
    this.#free.push(slot);
    return row;
  }

  /** Lists everything that is registered. */
  entries(): Registered<Value>[] {
    return this.#rows.filter((row) => row !== undefined);
  }

  #known(id: number, kernel: string, task: number, value: Value): Registered<Value> | undefined {
    const slot = this.#ids.slot(id, kernel, task);
    const row = this.#rows[slot];
    if (row) this.#rows[slot] = { ...row, value };
    return row;
  }

  /** Returns the id, or 0 if it cannot be claimed. */
  #claim(given: number, kernel: string, task: number, value: Value): number {
    const slot = this.#free.at(-1) ?? this.#rows.length;
    const id = this.#ids.claim(given, kernel, task, slot);
    if (id === 0) return 0;
    if (slot < this.#rows.length) this.#free.pop();
    this.#rows[slot] = { id, kernel, task, value };
    return id;
  }
}

function checkPair(kernel: string, task: number): void {
  if (typeof kernel !== "string" || kernel === "")
    throw invalid(`The kernel's name is "${String(kernel)}"; pass a string that is not empty.`);
  if (task !== (task | 0))
    throw invalid(`The task is ${task}; pass a whole number from -2147483648 to 2147483647.`);
}

function checkId(id: number): void {
  if (id === 0 || id !== id >>> 0) throw invalid(`The id is ${id}; pass a whole number from 1 to 4294967295.`);
}

function order(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

function hex(id: number): string {
  return `0x${id.toString(16).padStart(8, "0")}`;
}
