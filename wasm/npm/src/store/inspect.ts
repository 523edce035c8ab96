import { Fault } from "./idb.js";
import { split, textOf } from "./name.js";
import { type About, isDamage, Records, type Stored } from "./record.js";
import type { Statistics } from "./statistics.js";
import type { Store } from "./store.js";

/** The number of records that are read at a time. */
const BATCH = 256;

/**
 * What is known of an entry: sizes are of the whole and of its payload, in bytes; times in milliseconds since
 * 1970 UTC.
 */
export interface Listed extends About {
  key: Uint8Array;
  size: number;
  payload: number;
  usedMs: number;
}

/** A field in which two recipes differ. */
export interface Change {
  label: string;
  /** Absent if the field is new. */
  old?: string;
  /** Absent if the field was removed. */
  new?: string;
}

/** The explanation of a miss. */
export interface Explained {
  /** Absent for a hit. */
  reason?: string;
  /** The entry whose recipe is nearest to the one that was looked for, if it is another one. */
  nearest?: { key: Uint8Array; metadata: Uint8Array; changes: Change[] };
}

/** Lists the metadata of all readable entries in the order of eviction. */
export async function list(store: Store): Promise<Listed[]> {
  await store.flush();
  const listed: { place: number; entry: Listed }[] = [];
  const places = new Map<string, { place: number; usedMs: number }>();
  const records = new Records(store.engine);
  const add = (record: Stored, name: Uint8Array, place: number, usedMs?: number) => {
    if (records.under(record, name) !== undefined) return;
    const { reader } = records;
    const about = records.about();
    const payload = records.payload();
    const entry = {
      ...about,
      key: reader.key(),
      size: records.size(),
      payload,
      usedMs: usedMs ?? about.createdMs,
    };
    listed.push({ place, entry });
  };
  const ledger = store.journal?.ledger;
  if (ledger !== undefined) {
    const uses = ledger.uses();
    let place = 0;
    for (const name of split(ledger.names())) {
      places.set(textOf(name), { place, usedMs: uses[place] ?? 0 });
      place += 1;
    }
  }
  let place = places.size;
  const inMemory = new Set<string>();
  for (const { name, record, usedMs } of store.memory.all()) {
    inMemory.add(textOf(name));
    add(record, name, place, usedMs);
    place += 1;
  }
  await eachRecord(store, (name, record) => {
    const text = textOf(name);
    const known = places.get(text);
    if (!inMemory.has(text)) add(record, name, known?.place ?? place, known?.usedMs);
  });
  records.reader.free();
  return listed.sort((left, right) => left.place - right.place).map(({ entry }) => entry);
}

/** Explains why a look-up of this key misses; `recipe` is encoded metadata with the recipe of the key. */
export async function explain(store: Store, key: Uint8Array, recipe?: Uint8Array): Promise<Explained> {
  const [looked] = await store.peek([key]);
  const explained: Explained = typeof looked === "string" ? { reason: looked } : {};
  const nearest = recipe === undefined ? undefined : await findNearest(store, recipe);
  return nearest === undefined ? explained : { ...explained, nearest };
}

/** Reads every entry and removes damaged ones. Verifies heads of large values, but not their payloads. */
export async function verify(store: Store): Promise<{ key: Uint8Array | undefined; reason: string }[]> {
  const records = new Records(store.engine);
  const bad: { name: Uint8Array<ArrayBuffer>; key: Uint8Array | undefined; reason: string }[] = [];
  await eachRecord(store, (name, record) => {
    const reason = records.under(record, name);
    if (reason === undefined || !isDamage(reason)) return;
    bad.push({ name, key: reason === "key_mismatch" ? records.reader.key() : undefined, reason });
  });
  for (const { name, reason } of bad) {
    store.counters.miss(reason);
    await store.heal(name, (record) => isDamage(records.under(record, name) ?? ""));
  }
  records.reader.free();
  return bad.map(({ key, reason }) => ({ key, reason }));
}

/** Returns the counters since the store was opened, and its size. */
export async function statistics(store: Store): Promise<Statistics> {
  await store.flush();
  const { misses, refusals, ...counters } = store.counters;
  const ledger = store.journal?.ledger;
  return {
    ...counters,
    misses: { ...misses },
    refusals: { ...refusals },
    entries: (ledger?.entries ?? 0) + store.memory.entries,
    bytes: (ledger?.bytes ?? 0) + store.memory.bytes,
  };
}

/** Of equally near entries, returns the most recently used. */
async function findNearest(store: Store, wanted: Uint8Array): Promise<Explained["nearest"]> {
  const { engine } = store;
  let nearest: { remoteness: number; entry: Listed } | undefined;
  for (const entry of await list(store)) {
    const remoteness = engine.remoteness(wanted, entry.metadata);
    if (remoteness !== undefined && remoteness <= (nearest?.remoteness ?? Infinity)) nearest = { remoteness, entry };
  }
  if (nearest === undefined) return undefined;
  const { key, metadata } = nearest.entry;
  return { key, metadata, changes: changed(engine.changes(wanted, metadata)) };
}

/**
 * The engine's changes: label, old and new value, each behind its length, which is the largest where there is
 * none.
 */
function changed(bytes: Uint8Array): Change[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const text = (): string | undefined => {
    const length = view.getUint32(at, true);
    at += 4;
    if (length === 0xffff_ffff) return undefined;
    at += length;
    return decoder.decode(bytes.subarray(at - length, at));
  };
  const changes: Change[] = [];
  while (at < bytes.length) {
    const [label, before, after] = [text() ?? "", text(), text()];
    const change: Change = { label };
    if (before !== undefined) change.old = before;
    if (after !== undefined) change.new = after;
    changes.push(change);
  }
  return changes;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Visits every record of the database that the browser can read. */
async function eachRecord(
  store: Store,
  visit: (name: Uint8Array<ArrayBuffer>, record: Stored) => void,
): Promise<void> {
  const { database, directory, isClosed } = store;
  if (database === undefined || isClosed) return;
  try {
    await directory.refresh(database);
  } catch {
    // What is known is visited.
  }
  const names = directory.names();
  for (let from = 0; from < names.length; from += BATCH) {
    const some = names.slice(from, from + BATCH);
    await store.records(some, (record, at) => {
      if (record !== undefined && !(record instanceof Fault)) visit(some[at]!, record);
    });
  }
}
