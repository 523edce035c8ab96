import { launchEngine, type LaunchEngine } from "./launch.js";
import { invalid } from "./errors.js";

/** The cause of a computation: why a launch did not return a kept result. */
export interface MissCause {
  /**
   * - `first`: the kernel has no earlier result.
   * - `moved`: an input of the earlier result has changed.
   * - `invalidated`: {@link LaunchMemo.invalidate} was called.
   * - `nothing_read`: the earlier computation read nothing through its recorder, so its inputs are unknown.
   * - `concurrent_write`: an input was written during the earlier computation.
   * - `generation_exhausted`: the write counter of an input is exhausted, so later writes could not be
   *   detected.
   */
  reason: "first" | "moved" | "invalidated" | "nothing_read" | "concurrent_write" | "generation_exhausted";
  /** For `moved`, the first input that changed, as a text for people. */
  moved?: string;
}

/** The result of a launch. */
export interface Launched<Result> {
  /** The result that the kernel's function returned. */
  value: Result;
  /** Whether the result is that of an earlier launch. */
  hit: boolean;
  /** The cause of the computation; absent for a hit. */
  missCause?: MissCause;
}

/** A single value whose writes are counted. After changing the inside of an object, call {@link touch}. */
export class MemoField<Value> {
  /** @internal */
  readonly memo: LaunchMemo;
  /** @internal */
  readonly number: number;
  #value: Value;

  /** @internal */
  constructor(memo: LaunchMemo, number: number, value: Value) {
    this.memo = memo;
    this.number = number;
    this.#value = value;
  }

  /** The value. Setting it counts as a write, even to the same value. */
  get value(): Value {
    return this.#value;
  }

  set value(value: Value) {
    this.touch();
    this.#value = value;
  }

  /** Counts a write to the inside of the value. */
  touch(): void {
    this.memo.wrote((engine) => engine.write_field(this.number));
  }
}

/** An array with a shape, such as a GPU buffer, whose writes are counted. */
export class MemoArray<Value> {
  /** @internal */
  readonly memo: LaunchMemo;
  /** @internal */
  readonly number: bigint;
  /** A value of the caller's, such as the buffer. */
  readonly value: Value;
  /** @internal Whether the array was not freed yet. */
  isThere = true;
  #shape: readonly number[];

  /** @internal */
  constructor(memo: LaunchMemo, number: bigint, shape: readonly number[], value: Value) {
    this.memo = memo;
    this.number = number;
    this.value = value;
    this.#shape = shape;
  }

  /** The length of each axis, in elements. */
  get shape(): readonly number[] {
    return this.#shape;
  }

  /**
   * Sets the shape. Counts as a write.
   *
   * @throws WarmstartError `invalid_argument` if the shape is invalid, or the array was freed
   */
  reshape(shape: readonly number[]): void {
    const next = checkedShape(shape);
    this.#write(next);
    this.#shape = next;
  }

  /**
   * Counts a write to the contents of the array.
   *
   * @throws WarmstartError `invalid_argument` if the array was freed
   */
  touch(): void {
    this.#write(this.#shape);
  }

  /** Frees the array: launches no longer see it among their arguments. */
  free(): void {
    this.isThere = false;
    this.memo.wrote((engine) => engine.free_array(this.number));
  }

  #write(shape: readonly number[]): void {
    if (!this.memo.wrote((engine) => engine.write_array(this.number, Float64Array.from(shape)))) {
      throw invalid("The array was freed; allocate a new one.");
    }
  }
}

/** Reads the inputs of a computation, and records them as the dependencies of its result. */
export interface Recorder {
  /** Returns the value of a field. */
  field<Value>(field: MemoField<Value>): Value;
  /**
   * Returns the array at this index of the launch's arguments; `undefined` if there is none or it was freed.
   * The result then depends on the array's identity and contents.
   */
  array(argument: number): MemoArray<unknown> | undefined;
  /** Returns the length of an axis of that array, in elements. The result then depends on the length alone. */
  extent(argument: number, axis: number): number | undefined;
}

/** A registered function; returned by {@link LaunchMemo.register}. */
export interface Kernel<Result> {
  /** @internal */
  readonly result?: Result;
}

/**
 * Keeps the results of computations that each launch repeats, mostly with the same inputs: the number of
 * workgroups, the tile size, the size of a scratch buffer. The memo records the inputs that a computation
 * reads, and returns the kept result until one of them changes. Fields and arrays belong to one memo;
 * arguments are identified by their index.
 *
 * The memo keeps one result per kernel: if a program swaps two buffers at each launch, register the function
 * once for each.
 *
 * @example
 * const memo = new LaunchMemo();
 * const tile = memo.field(8);
 * const image = memo.array([64, 64], buffer);
 * const groups = memo.register((recorder) => Math.ceil(recorder.extent(0, 0)! / recorder.field(tile)));
 * memo.launch(groups, [image]); // { value: 8, hit: false, missCause: { reason: "first" } }
 * memo.launch(groups, [image]); // { value: 8, hit: true }
 * tile.value = 16;
 * memo.launch(groups, [image]); // { value: 4, hit: false, missCause: { reason: "moved", ... } }
 */
export class LaunchMemo {
  #engine: InstanceType<LaunchEngine["Memo"]> = new (launchEngine().Memo)();
  #slots = new Map<Kernel<unknown>, Slot>();
  #free: number[] = [];
  #used = 0;
  /** The number of writes to all fields and arrays. */
  #writes = 0;
  #isComputing = false;
  #hits = 0;
  #misses = 0;

  /** The number of launches that returned a kept result, and of those that computed one. */
  get stats(): { hits: number; misses: number } {
    return { hits: this.#hits, misses: this.#misses };
  }

  /** Creates a field. */
  field<Value>(value: Value): MemoField<Value> {
    return new MemoField(this, this.#engine.field(), value);
  }

  /**
   * Creates an array of this shape, in elements along each axis.
   *
   * @throws WarmstartError `invalid_argument` if a length is not a whole number from 0
   */
  array<Value = undefined>(shape: readonly number[], value?: Value): MemoArray<Value> {
    const axes = checkedShape(shape);
    return new MemoArray(this, this.#engine.allocate(Float64Array.from(axes)), axes, value as Value);
  }

  /**
   * Registers a function whose results are kept. The function must read all changing inputs through its
   * recorder, and before it returns.
   *
   * @throws WarmstartError `invalid_argument` if `compute` is not a function
   */
  register<Result>(compute: (recorder: Recorder) => Result): Kernel<Result> {
    if (typeof compute !== "function")
      throw invalid(`The kernel is of type ${typeof compute}; pass a function that computes a result.`);
    const kernel: Kernel<Result> = Object.freeze({});
    this.#slots.set(kernel, {
      number: this.#free.pop() ?? this.#used++,
      compute,
      kept: false,
      value: undefined,
      without: "first",
      changes: 0,
    });
    return kernel;
  }

  /** Removes a kernel and its result. */
  remove(kernel: Kernel<unknown>): void {
    const slot = this.#slot(kernel);
    this.invalidate(kernel);
    this.#slots.delete(kernel);
    this.#free.push(slot.number);
  }

  /**
   * Returns the result for a launch with these arrays: the kept one if no input has changed, otherwise a new
   * one. If the function throws, the error is passed on, and the kept result stays.
   *
   * @throws WarmstartError `invalid_argument` if the kernel or an array belongs to another memo, if the
   *   function is asynchronous, or if it launches a kernel itself, whose dependencies would not be recorded
   */
  launch<Result>(kernel: Kernel<Result>, args: readonly MemoArray<unknown>[] = []): Launched<Result> {
    if (this.#isComputing)
      throw invalid("A kernel's function launched a kernel; read the inputs through its recorder instead.");
    const slot = this.#slot(kernel);
    const bound = this.#bound(args);
    if (slot.kept && this.#engine.holds(slot.number, bound)) {
      this.#hits += 1;
      return { value: slot.value as Result, hit: true };
    }
    const missCause = this.#missCause(slot, bound) as MissCause;
    const { changes } = slot;
    const writes = this.#writes;
    const reading = new Reading(this, args);
    let value: unknown;
    this.#isComputing = true;
    try {
      value = slot.compute(reading);
    } finally {
      reading.end();
      this.#isComputing = false;
    }
    if (value instanceof Promise)
      throw invalid("A kernel's function returned a promise; compute the result synchronously.");
    this.#misses += 1;
    if (this.#slots.get(kernel) === slot && slot.changes === changes) {
      const notCached =
        this.#writes === writes ? this.#keep(slot, bound, reading.observed) : "concurrent_write";
      if (notCached === undefined) Object.assign(slot, { kept: true, value, changes: changes + 1 });
      else slot.without = notCached;
    }
    return { value: value as Result, hit: false, missCause };
  }

  /** Returns why the next launch with these arrays would compute its result; `undefined` if it would hit. */
  explain(kernel: Kernel<unknown>, args: readonly MemoArray<unknown>[] = []): MissCause | undefined {
    return this.#missCause(this.#slot(kernel), this.#bound(args));
  }

  /** Removes the result of a kernel, after a change that the memo did not count. */
  invalidate(kernel: Kernel<unknown>): void {
    const slot = this.#slot(kernel);
    this.#engine.forget(slot.number);
    Object.assign(slot, { kept: false, value: undefined, without: "invalidated", changes: slot.changes + 1 });
  }

  /** @internal */
  wrote<Result>(write: (engine: InstanceType<LaunchEngine["Memo"]>) => Result): Result {
    this.#writes += 1;
    return write(this.#engine);
  }

  /**
   * Keeps a result, or returns the reason why it cannot. The earlier result then stays: it never hits, and
   * still shows which input changed.
   */
  #keep(slot: Slot, bound: BigUint64Array, observed: number[]): MissCause["reason"] | undefined {
    return NOT_CACHED[this.#engine.keep(slot.number, bound, Uint32Array.from(observed))];
  }

  #missCause(slot: Slot, bound: BigUint64Array): MissCause | undefined {
    if (!slot.kept) return { reason: slot.without };
    const moved = this.#engine.moved(slot.number, bound);
    return moved && { reason: "moved", moved: described(moved) };
  }

  #slot(kernel: Kernel<unknown>): Slot {
    const slot = this.#slots.get(kernel);
    if (slot === undefined)
      throw invalid("The kernel was removed or belongs to another memo; register it here.");
    return slot;
  }

  #bound(args: readonly MemoArray<unknown>[]): BigUint64Array {
    const bound = new BigUint64Array(args.length);
    args.forEach((array, at) => {
      if (array.memo !== this)
        throw invalid("The array belongs to another memo; create it with this memo's array().");
      bound[at] = array.number;
    });
    return bound;
  }
}

interface Slot {
  number: number;
  compute: (recorder: Recorder) => unknown;
  /** Whether there is a result. */
  kept: boolean;
  value: unknown;
  /** Why there is no result. */
  without: MissCause["reason"];
  /** Counts results and invalidations, so that a result computed across one is not kept. */
  changes: number;
}

class Reading implements Recorder {
  #memo: LaunchMemo;
  #args: readonly MemoArray<unknown>[];
  #isOver = false;
  #seen = new Set<string>();
  /** Three numbers for each dependency, in the engine's encoding. */
  readonly observed: number[] = [];

  constructor(memo: LaunchMemo, args: readonly MemoArray<unknown>[]) {
    this.#memo = memo;
    this.#args = args;
  }

  field<Value>(field: MemoField<Value>): Value {
    if (field.memo !== this.#memo)
      throw invalid("The field belongs to another memo; create it with this memo's field().");
    this.#observe(0, field.number, 0);
    return field.value;
  }

  array(argument: number): MemoArray<unknown> | undefined {
    this.#observe(1, argument, 0);
    return this.#at(argument);
  }

  extent(argument: number, axis: number): number | undefined {
    this.#observe(2, argument, axis);
    return this.#at(argument)?.shape[axis];
  }

  end(): void {
    this.#isOver = true;
  }

  #at(argument: number): MemoArray<unknown> | undefined {
    const array = this.#args[argument];
    return array?.isThere ? array : undefined;
  }

  #observe(kind: number, id: number, axis: number): void {
    if (this.#isOver)
      throw invalid("A kernel read an input after its function returned; read all inputs before.");
    if (id !== id >>> 0 || axis !== axis >>> 0)
      throw invalid(`Argument ${id} or axis ${axis} is invalid; pass whole numbers from 0.`);
    const name = `${kind} ${id} ${axis}`;
    if (this.#seen.has(name)) return;
    this.#seen.add(name);
    this.observed.push(kind, id, axis);
  }
}

/** The reasons why the engine does not keep a result, by its numbers; 0 means that the result is kept. */
const NOT_CACHED: readonly (MissCause["reason"] | undefined)[] = [
  undefined,
  "nothing_read",
  "generation_exhausted",
];

function described(moved: Float64Array): string {
  const [kind, id, axis, was = -1, now = -1, isOther] = moved;
  if (kind === 0) return `field ${id} was written: ${was} writes are now ${now}`;
  if (kind === 2) return `axis ${axis} of argument ${id} was ${length(was)} and is ${length(now)}`;
  if (isOther) return `argument ${id} is another array`;
  if (was < 0 || now < 0) return `argument ${id} ${now < 0 ? "is not bound any more" : "is bound now"}`;
  return `argument ${id} was written: ${was} writes are now ${now}`;
}

function length(extent: number): string {
  return extent < 0 ? "not there" : String(extent);
}

function checkedShape(shape: readonly number[]): readonly number[] {
  if (!shape.every((length) => Number.isSafeInteger(length) && length >= 0)) {
    throw invalid(`The shape is [${shape.join(", ")}]; pass whole numbers from 0.`);
  }
  return Object.freeze([...shape]);
}
