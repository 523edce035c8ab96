import { launchEngine, type LaunchEngine } from "./launch.js";
import { invalid } from "./errors.js";

/** Why a result was computed and not taken from the memo. */
export interface Why {
  /**
   * - `first`: nothing was computed for this kernel before.
   * - `moved`: something that the result was computed from is not as it was.
   * - `invalidated`: {@link LaunchMemo.invalidate} was called.
   * - `nothing_read`: the last one read nothing through its reader, so nobody can know when it is out of
   *   date.
   * - `torn`: something was written while the last one was computed.
   * - `worn`: something was written so often that the next write could not be told.
   */
  reason: "first" | "moved" | "invalidated" | "nothing_read" | "torn" | "worn";
  /** What moved first, in words. */
  moved?: string;
}

/** What a launch gets. */
export interface Launched<Result> {
  value: Result;
  /** Whether it was kept from an earlier launch. */
  hit: boolean;
  /** Why not. */
  why?: Why;
}

/**
 * Something with one value, whose writes count. Change what is inside of an object with {@link touch} behind
 * it.
 */
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

  /** The value. Setting it counts as a write, whatever it is set to. */
  get value(): Value {
    return this.#value;
  }

  set value(value: Value) {
    this.touch();
    this.#value = value;
  }

  /** Says that the value was changed from within. */
  touch(): void {
    this.memo.wrote((engine) => engine.write_field(this.number));
  }
}

/** An array with a shape, such as a GPU buffer, whose writes count. */
export class MemoArray<Value> {
  /** @internal */
  readonly memo: LaunchMemo;
  /** @internal */
  readonly number: bigint;
  /** Whatever belongs to it, such as the buffer. */
  readonly value: Value;
  /** @internal Whether it is still there. */
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

  /** Gives it another shape. Counts as a write. */
  reshape(shape: readonly number[]): void {
    const next = checkedShape(shape);
    this.#write(next);
    this.#shape = next;
  }

  /** Says that its contents were written. */
  touch(): void {
    this.#write(this.#shape);
  }

  /** Takes it away. It is no argument of a launch any more. */
  free(): void {
    this.isThere = false;
    this.memo.wrote((engine) => engine.free_array(this.number));
  }

  #write(shape: readonly number[]): void {
    if (!this.memo.wrote((engine) => engine.write_array(this.number, Float64Array.from(shape)))) {
      throw invalid("The array was freed.");
    }
  }
}

/** The only door through which a result is computed, so that everything it depends on is known. */
export interface Reader {
  /** The value of a field. */
  field<Value>(field: MemoField<Value>): Value;
  /**
   * The array at this place among the arguments of the launch: the result depends on which one it is, and on
   * its contents.
   */
  array(place: number): MemoArray<unknown> | undefined;
  /** The length of an axis of that array, in elements: the result depends on that number alone. */
  extent(place: number, axis: number): number | undefined;
}

/** What {@link LaunchMemo.register} gives. */
export interface Kernel<Result> {
  /** @internal */
  readonly result?: Result;
}

/**
 * Keeps what is computed at each launch, nearly always from the same things: how many workgroups, which tile,
 * how large a scratch buffer. A result is kept together with everything that was read while it was computed,
 * and is taken again until something of that moves. The fields and arrays belong to one memo; arguments are
 * known by their places.
 *
 * One result a kernel: where two buffers are swapped at each launch, register the function once for each.
 *
 * @example
 * const memo = new LaunchMemo();
 * const tile = memo.field(8);
 * const image = memo.array([64, 64], buffer);
 * const groups = memo.register((read) => Math.ceil(read.extent(0, 0)! / read.field(tile)));
 * memo.launch(groups, [image]); // { value: 8, hit: false, why: { reason: "first" } }
 * memo.launch(groups, [image]); // { value: 8, hit: true }
 * tile.value = 16;
 * memo.launch(groups, [image]); // { value: 4, hit: false, why: { reason: "moved", ... } }
 */
export class LaunchMemo {
  #engine: InstanceType<LaunchEngine["Memo"]> = new (launchEngine().Memo)();
  #slots = new Map<Kernel<unknown>, Slot>();
  #free: number[] = [];
  #used = 0;
  /** How much was written, of anything. */
  #writes = 0;
  #isComputing = false;
  #hits = 0;
  #misses = 0;

  /** How many launches took a kept result, and how many computed one. */
  get stats(): { hits: number; misses: number } {
    return { hits: this.#hits, misses: this.#misses };
  }

  /** A new field. */
  field<Value>(value: Value): MemoField<Value> {
    return new MemoField(this, this.#engine.field(), value);
  }

  /** A new array of this shape, in elements along each axis. */
  array<Value = undefined>(shape: readonly number[], value?: Value): MemoArray<Value> {
    const axes = checkedShape(shape);
    return new MemoArray(this, this.#engine.allocate(Float64Array.from(axes)), axes, value as Value);
  }

  /**
   * Names a function whose results are kept. What it reads that may change, it reads through `read`, at once
   * and not later; beside that it uses nothing that changes.
   */
  register<Result>(compute: (read: Reader) => Result): Kernel<Result> {
    if (typeof compute !== "function") throw invalid("A kernel is a function that computes a result.");
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

  /** Forgets a kernel and its result. */
  remove(kernel: Kernel<unknown>): void {
    const slot = this.#slot(kernel);
    this.invalidate(kernel);
    this.#slots.delete(kernel);
    this.#free.push(slot.number);
  }

  /**
   * The result for a launch with these arrays: the kept one if nothing has moved, else a new one. What the
   * function throws is passed on, and what was kept stays.
   *
   * @throws {@link WarmstartError} with `invalid_argument`, if the kernel or an array is not this memo's,
   *   if the function is asynchronous, or if it launches something itself: what that depends on would be lost
   */
  launch<Result>(kernel: Kernel<Result>, args: readonly MemoArray<unknown>[] = []): Launched<Result> {
    if (this.#isComputing)
      throw invalid("A function whose result is kept launches nothing: read what it needs.");
    const slot = this.#slot(kernel);
    const bound = this.#bound(args);
    if (slot.kept && this.#engine.holds(slot.number, bound)) {
      this.#hits += 1;
      return { value: slot.value as Result, hit: true };
    }
    const why = this.#why(slot, bound) as Why;
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
    if (value instanceof Promise) throw invalid("A function whose result is kept is not asynchronous.");
    this.#misses += 1;
    if (this.#slots.get(kernel) === slot && slot.changes === changes) {
      const unkept = this.#writes === writes ? this.#keep(slot, bound, reading.observed) : "torn";
      if (unkept === undefined) Object.assign(slot, { kept: true, value, changes: changes + 1 });
      else slot.without = unkept;
    }
    return { value: value as Result, hit: false, why };
  }

  /** Why the next launch with these arrays would compute; nothing if it would not. */
  explain(kernel: Kernel<unknown>, args: readonly MemoArray<unknown>[] = []): Why | undefined {
    return this.#why(this.#slot(kernel), this.#bound(args));
  }

  /** Forgets the result of a kernel: for what changed without being counted. */
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
   * Gives why it was not kept, or nothing. What was kept before stays then: it never holds, and says what
   * moved.
   */
  #keep(slot: Slot, bound: BigUint64Array, observed: number[]): Why["reason"] | undefined {
    return UNKEPT[this.#engine.keep(slot.number, bound, Uint32Array.from(observed))];
  }

  #why(slot: Slot, bound: BigUint64Array): Why | undefined {
    if (!slot.kept) return { reason: slot.without };
    const moved = this.#engine.moved(slot.number, bound);
    return moved && { reason: "moved", moved: described(moved) };
  }

  #slot(kernel: Kernel<unknown>): Slot {
    const slot = this.#slots.get(kernel);
    if (slot === undefined) throw invalid("The kernel was removed, or is another memo's: register it here.");
    return slot;
  }

  #bound(args: readonly MemoArray<unknown>[]): BigUint64Array {
    const bound = new BigUint64Array(args.length);
    args.forEach((array, at) => {
      if (array.memo !== this) throw invalid("The array is another memo's.");
      bound[at] = array.number;
    });
    return bound;
  }
}

interface Slot {
  number: number;
  compute: (read: Reader) => unknown;
  /** Whether there is a result. */
  kept: boolean;
  value: unknown;
  /** Why there is none. */
  without: Why["reason"];
  /** Counts results and invalidations, so that what was computed across one is not kept. */
  changes: number;
}

class Reading implements Reader {
  #memo: LaunchMemo;
  #args: readonly MemoArray<unknown>[];
  #isOver = false;
  #seen = new Set<string>();
  /** Three numbers for each thing that was read, as the engine has them. */
  readonly observed: number[] = [];

  constructor(memo: LaunchMemo, args: readonly MemoArray<unknown>[]) {
    this.#memo = memo;
    this.#args = args;
  }

  field<Value>(field: MemoField<Value>): Value {
    if (field.memo !== this.#memo) throw invalid("The field is another memo's.");
    this.#observe(0, field.number, 0);
    return field.value;
  }

  array(place: number): MemoArray<unknown> | undefined {
    this.#observe(1, place, 0);
    return this.#at(place);
  }

  extent(place: number, axis: number): number | undefined {
    this.#observe(2, place, axis);
    return this.#at(place)?.shape[axis];
  }

  end(): void {
    this.#isOver = true;
  }

  #at(place: number): MemoArray<unknown> | undefined {
    const array = this.#args[place];
    return array?.isThere ? array : undefined;
  }

  #observe(kind: number, id: number, axis: number): void {
    if (this.#isOver)
      throw invalid("A result is computed at once: nothing is read after its function returned.");
    if (id !== id >>> 0 || axis !== axis >>> 0)
      throw invalid("A place and an axis are whole numbers from 0.");
    const name = `${kind} ${id} ${axis}`;
    if (this.#seen.has(name)) return;
    this.#seen.add(name);
    this.observed.push(kind, id, axis);
  }
}

const UNKEPT: readonly (Why["reason"] | undefined)[] = [undefined, "nothing_read", "worn"];

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
    throw invalid("A shape is a list of whole numbers from 0.");
  }
  return Object.freeze([...shape]);
}
