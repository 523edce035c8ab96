import { type Database, DIRECTORY, ENTRIES } from "./database.js";
import type { Directory } from "./directory.js";
import { eachResult } from "./idb.js";
import { numberAt } from "./pack.js";

/** The requests of a look-up, and its callbacks. */
export interface LookUp<T> {
  names: readonly Uint8Array[];
  /** Requests a record, which may hold the entries of several names. */
  request: (entries: IDBObjectStore, number: number) => IDBRequest<T | undefined>;
  /**
   * Told of each name once, as soon as it is known, while the browser reads the next record. `place` is that
   * of its entry.
   */
  tell: (found: T | undefined, at: number, place: number) => void;
  /** Called for an entry that should exist, but was removed by other code than a cache. */
  gone: (name: Uint8Array) => void;
}

/**
 * Looks for entries where the directory says that they are, in one transaction. For those that are not there,
 * or are not known, the directory is brought up to date in another one: what was stored before this call is
 * found.
 */
export async function lookUp<T>(
  database: Database,
  directory: Directory,
  { names, request, tell, gone }: LookUp<T>,
): Promise<void> {
  let places = names.map((name) => directory.placeOf(name));
  let missing: number[] = [];
  const ask = (entries: IDBObjectStore, wanted: readonly number[]): Promise<void> => {
    const shared = new Map<number, number[]>();
    for (const at of wanted) {
      const number = numberAt(places[at]!);
      const others = shared.get(number);
      if (others === undefined) shared.set(number, [at]);
      else others.push(at);
    }
    const sharers = [...shared.values()];
    const requests = [...shared.keys()].map((number) => request(entries, number));
    return eachResult(requests, (found, nth) => {
      for (const at of sharers[nth]!) {
        if (found === undefined) missing.push(at);
        else tell(found, at, places[at]!);
      }
    });
  };
  if (places.some((place) => place !== undefined)) {
    const begun = database.begin(ENTRIES, "readonly");
    const transaction = begun instanceof Promise ? await begun : begun;
    if (directory.follow(database)) places = names.map(() => undefined);
    const known: number[] = [];
    places.forEach((place, at) => (place === undefined ? missing : known).push(at));
    if (known.length > 0) await ask(transaction.objectStore(ENTRIES), known);
    if (missing.length === 0) return;
  } else {
    missing = names.map((_, at) => at);
  }

  const again = await database.begin([ENTRIES, DIRECTORY], "readonly");
  if (await directory.catchUp(database, again)) places = names.map(() => undefined);
  const [absent, moved]: [number[], number[]] = [[], []];
  for (const at of missing) {
    const place = directory.placeOf(names[at]!);
    const isNew = place !== undefined && place !== places[at];
    places[at] = place;
    (isNew ? moved : absent).push(at);
  }
  // What is not there either comes to them.
  missing = absent;
  if (moved.length > 0) await ask(again.objectStore(ENTRIES), moved);
  for (const at of missing) {
    const place = places[at];
    if (place !== undefined) {
      directory.forget(names[at]!, place);
      gone(names[at]!);
    }
    tell(undefined, at, 0);
  }
}
