import { type Database, DIRECTORY, ENTRIES } from "./database.js";
import type { Directory } from "./directory.js";
import { eachResult } from "./idb.js";

/** What is looked for, and who is told. */
export interface LookUp<T> {
  names: readonly Uint8Array[];
  /** Makes the request for the entry under a number. */
  request: (entries: IDBObjectStore, number: number) => IDBRequest<T | undefined>;
  /** Told of each name once, as soon as it is known; of those that are there, while the browser reads the next one. */
  tell: (found: T | undefined, at: number) => void;
  /** Told of an entry that should be there: somebody has removed it behind the back of all caches. */
  gone: (name: Uint8Array) => void;
}

/**
 * Looks for entries where the directory says that they are, in one transaction. For those that are not there, or are not known, the
 * directory is brought up to date in another one: what was stored before this call is found.
 */
export async function lookUp<T>(database: Database, directory: Directory, wanted: LookUp<T>): Promise<void> {
  const { names, request, tell } = wanted;
  const begun = database.begin(ENTRIES, "readonly");
  const transaction = begun instanceof Promise ? await begun : begun;
  directory.follow(database);
  const numbers = names.map((name) => directory.numberOf(name));
  let open: number[] = [];
  const ask = (entries: IDBObjectStore, places: readonly number[]): Promise<void> => {
    const requests = places.map((at) => request(entries, numbers[at]!));
    return eachResult(requests, (found, nth) => {
      if (found === undefined) open.push(places[nth]!);
      else tell(found, places[nth]!);
    });
  };
  const known: number[] = [];
  numbers.forEach((number, at) => (number === undefined ? open : known).push(at));
  if (known.length > 0) await ask(transaction.objectStore(ENTRIES), known);
  if (open.length === 0) return;

  const again = await database.begin([ENTRIES, DIRECTORY], "readonly");
  await directory.catchUp(database, again);
  const [absent, moved]: [number[], number[]] = [[], []];
  for (const at of open) {
    const number = directory.numberOf(names[at]!);
    const isNew = number !== undefined && number !== numbers[at];
    numbers[at] = number;
    (isNew ? moved : absent).push(at);
  }
  open = absent;
  if (moved.length > 0) await ask(again.objectStore(ENTRIES), moved);
  for (const at of open) {
    const number = numbers[at];
    if (number !== undefined) {
      directory.forget(names[at]!, number);
      wanted.gone(names[at]!);
    }
    tell(undefined, at);
  }
}
