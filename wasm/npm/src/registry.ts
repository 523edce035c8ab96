import { launchEngine, type LaunchEngine } from "./launch.js";
import { invalid } from "./errors.js";

/** A kernel and a task with an id that stands for them, and what was registered with them. */
export interface Registered<Value> {
  /** The number that is in the code. */
  readonly id: number;
  readonly kernel: string;
  readonly task: number;
  readonly value: Value;
}

/**
 * Which kernel and task stand behind a small number that generated code can write when something goes wrong:
 * an index out of bounds, a buffer that is too short. The ids are the same in every process and in Rust, so
 * code that was compiled elsewhere keeps its meaning.
 *
 * An id is a hash of the name. Several kernels may claim one; so an id alone is a hint, and {@link
 * Registry.verify} tells whether it is the one you think of.
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

  /** How many kernels and tasks have an id, each counted once for each of its ids. */
  get size(): number {
    return this.#rows.length - this.#free.length;
  }

  /**
   * The id to bake into code that is about to be compiled. Who is known already keeps the first id, and gets
   * the new value.
   *
   * @param task a whole number of 32 bits
   * @throws {@link WarmstartError} with `invalid_argument`, if the kernel has no name, if the task is no
   *   such number, or if all 256 ids that the two may have are taken
   */
  register(kernel: string, task: number, value: Value): number {
    checkPair(kernel, task);
    const known = this.#known(0, kernel, task, value);
    if (known) return known.id;
    const id = this.#claim(0, kernel, task, value);
    if (id === 0) throw invalid(`No id is left for the kernel "${kernel}": remove what is no longer loaded.`);
    return id;
  }

  /**
   * Takes over what loaded code says of itself: this id is in it and cannot be changed. Says whether the id
   * is this kernel's and task's `"alone"`, or is `"shared"` with others.
   *
   * @throws {@link WarmstartError} with `invalid_argument`, if the id cannot be that of this kernel and
   *   task: then the code was damaged or renamed, and is to be compiled anew
   */
  adopt(id: number, kernel: string, task: number, value: Value): "alone" | "shared" {
    checkPair(kernel, task);
    checkId(id);
    if (!this.#known(id, kernel, task, value) && this.#claim(id, kernel, task, value) === 0) {
      throw invalid(`${hex(id)} is not the id of the kernel "${kernel}", task ${task}: compile it anew.`);
    }
    return this.#ids.slots(id).length > 1 ? "shared" : "alone";
  }

  /** All whom an id may stand for, in the order of their names and tasks: none if it is not known here. */
  resolve(id: number): Registered<Value>[] {
    const rows = Array.from(this.#ids.slots(id), (slot) => this.#rows[slot] as Registered<Value>);
    return rows.sort((one, other) => order(one.kernel, other.kernel) || one.task - other.task);
  }

  /** What was registered under exactly this id, kernel and task, if it was. */
  verify(id: number, kernel: string, task: number): Registered<Value> | undefined {
    return id === 0 ? undefined : this.#rows[this.#ids.slot(id, kernel, task)];
  }

  /** The id that {@link register} gives, if the two are known. */
  idOf(kernel: string, task: number): number | undefined {
    return this.#rows[this.#ids.slot(0, kernel, task)]?.id;
  }

  /**
   * Forgets exactly this id, kernel and task, and gives what was registered. To be called once no code that
   * bears the id can run any more: the id may be given to another kernel.
   */
  remove(id: number, kernel: string, task: number): Registered<Value> | undefined {
    const slot = this.#ids.remove(id, kernel, task);
    const row = this.#rows[slot];
    if (row === undefined) return undefined;
    this.#rows[slot] = undefined;
    this.#free.push(slot);
    return row;
  }

  /** Everything that is registered. */
  entries(): Registered<Value>[] {
    return this.#rows.filter((row) => row !== undefined);
  }

  #known(id: number, kernel: string, task: number, value: Value): Registered<Value> | undefined {
    const slot = this.#ids.slot(id, kernel, task);
    const row = this.#rows[slot];
    if (row) this.#rows[slot] = { ...row, value };
    return row;
  }

  /** Gives the id, or 0. */
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
  if (typeof kernel !== "string" || kernel === "") throw invalid("A kernel has a name, which is not empty.");
  if (task !== (task | 0)) throw invalid("A task is a whole number from -2147483648 to 2147483647.");
}

function checkId(id: number): void {
  if (id === 0 || id !== id >>> 0) throw invalid("An id is a whole number from 1 to 4294967295.");
}

function order(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

function hex(id: number): string {
  return `0x${id.toString(16).padStart(8, "0")}`;
}
