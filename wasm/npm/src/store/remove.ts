import { type Database, DIRECTORY, ENTRIES, PIECES } from "./database.js";
import type { Directory } from "./directory.js";
import { abort, complete, result } from "./idb.js";
import { removePieces } from "./pieces.js";
import type { Stored } from "./record.js";

/** Removes entries in one transaction, with their pieces. Only those go of which `goes` is true. Gives which were there and went. */
export async function remove(
  database: Database,
  directory: Directory,
  names: readonly Uint8Array<ArrayBuffer>[],
  goes?: (record: Stored, at: number) => boolean,
): Promise<boolean[]> {
  const attempt = async (withRow: boolean): Promise<boolean[]> => {
    const transaction = await database.begin([ENTRIES, DIRECTORY, PIECES], "readwrite");
    let went: boolean[];
    let done: () => void;
    try {
      await directory.catchUp(database, transaction);
      went = await Promise.all(names.map((name, at) => isToGo(transaction.objectStore(ENTRIES), directory.numberOf(name), at)));
      const going = names.filter((_, at) => went[at]);
      done = directory.remove(transaction, going, withRow);
      for (const name of going) removePieces(transaction.objectStore(PIECES), name);
    } catch (error) {
      abort(transaction);
      throw error;
    }
    await complete(transaction);
    done();
    return went;
  };
  const isToGo = async (entries: IDBObjectStore, number: number | undefined, at: number): Promise<boolean> => {
    if (number === undefined) return false;
    if (goes === undefined) return (await result(entries.getKey(number))) !== undefined;
    const record = await result<Stored | undefined>(entries.get(number));
    return record !== undefined && goes(record, at);
  };
  // What stays would be found later, so one fault of the browser is not enough; and a database that is over its quota takes no row.
  return attempt(true).catch(() => attempt(false));
}
