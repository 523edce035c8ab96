import type { Engine } from "../engine.js";
import type { Place } from "./directory-row.js";
import { result } from "./idb.js";
import { nameOf, textOf } from "./name.js";
import { membersOf, numberAt, placeIn } from "./pack.js";
import { isDamage, Records } from "./record.js";

/** The number of records that are read at a time. */
const BATCH = 64;

/** Where entries are, and what is still there of values that are older than those. */
export interface Rebuilt {
  places: Place[];
  replaced: Place[];
}

/**
 * Rebuilds the places of all entries by reading them. Removes useless records, and the older of two values of a
 * name, which in a pack is removed later. Leaves entries of a newer version in place.
 */
export async function rebuild(engine: Engine, entries: IDBObjectStore): Promise<Rebuilt> {
  const records = new Records(engine);
  const latest = new Map<string, { place: number; createdMs: number }>();
  const replaced: Place[] = [];
  /** Of a newer version: left alone. */
  const unreadable: number[] = [];
  const note = (record: unknown, place: number): void => {
    const reason = records.read(record);
    if (reason !== undefined) {
      if (!isDamage(reason)) unreadable.push(place);
      return;
    }
    const text = textOf(nameOf(engine, records.reader.key()));
    const { createdMs } = records.about();
    const other = latest.get(text);
    const isLatest = other === undefined || other.createdMs <= createdMs;
    if (other !== undefined) replaced.push([text, isLatest ? other.place : place]);
    if (isLatest) latest.set(text, { place, createdMs });
  };
  const numbers = await result(entries.getAllKeys());
  for (let from = 0; from < numbers.length; from += BATCH) {
    const some = numbers.slice(from, from + BATCH);
    const range = IDBKeyRange.bound(some[0], some.at(-1));
    const found: unknown[] = await result(entries.getAll(range));
    some.forEach((number, at) => {
      if (typeof number !== "number") return;
      const members = membersOf(found[at]);
      if (members === undefined) note(found[at], number);
      else members.forEach((member, nth) => note(member, placeIn(number, nth + 1)));
    });
  }
  const places = [...latest].map(([text, { place }]): Place => [text, place]);
  const live = new Set([...places.map(([, place]) => place), ...unreadable].map(numberAt));
  for (const number of numbers) if (typeof number !== "number" || !live.has(number)) entries.delete(number);
  records.reader.free();
  return { places, replaced: replaced.filter(([, place]) => live.has(numberAt(place))) };
}
