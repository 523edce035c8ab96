import type { Engine } from "../engine.js";
import { type Place, textOf } from "./directory-row.js";
import { result } from "./idb.js";
import { isDamage, nameOf, Records } from "./record.js";

/** So many records are read at once. */
const BATCH = 64;

/** Finds out where all entries are by reading them. What is damaged goes, and of two values of a name the older one. */
export async function rebuild(engine: Engine, entries: IDBObjectStore): Promise<Place[]> {
  const records = new Records(engine);
  const places = new Map<string, number>();
  const numbers = await result(entries.getAllKeys());
  for (let from = 0; from < numbers.length; from += BATCH) {
    const some = numbers.slice(from, from + BATCH);
    const range = IDBKeyRange.bound(some[0], some.at(-1));
    const found: unknown[] = await result(entries.getAll(range));
    some.forEach((number, at) => {
      const reason = typeof number === "number" ? records.read(found[at]) : "foreign";
      if (reason === undefined) {
        const text = textOf(nameOf(engine, records.reader.key()));
        const older = places.get(text);
        if (older !== undefined) entries.delete(older);
        places.set(text, number as number);
      } else if (isDamage(reason)) {
        entries.delete(number);
      }
    });
  }
  records.reader.free();
  return [...places];
}
