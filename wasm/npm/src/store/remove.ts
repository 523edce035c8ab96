import { type Database, DIRECTORY, ENTRIES, PIECES } from "./database.js";
import type { Directory } from "./directory.js";
import { insist, whole } from "./idb.js";
import { readPlaces } from "./pack.js";
import { removePieces } from "./pieces.js";
import type { Stored } from "./record.js";

/** A place without a record: the first record has a higher number. */
const NOWHERE = 0;

/**
 * Removes entries for which `goes` is true, with their pieces, in one transaction. Returns which of them existed
 * and were removed.
 */
export async function remove(
  database: Database,
  directory: Directory,
  names: readonly Uint8Array<ArrayBuffer>[],
  goes: (record: Stored) => boolean = () => true,
): Promise<boolean[]> {
  const attempt = async (mayWrite: boolean): Promise<boolean[]> => {
    const transaction = await database.begin([ENTRIES, DIRECTORY, PIECES], "readwrite");
    const { went, done } = await whole(transaction, async () => {
      await directory.catchUp(database, transaction);
      const places = names.map((name) => directory.placeOf(name) ?? NOWHERE);
      const found = await readPlaces(transaction.objectStore(ENTRIES), places);
      const went = found.map((record) => record !== undefined && goes(record as Stored));
      const going = names.filter((_, at) => went[at]);
      const done = await directory.remove(transaction, going, mayWrite);
      for (const name of going) removePieces(transaction.objectStore(PIECES), name);
      return { went, done };
    });
    done();
    return went;
  };
  // An entry that stays would be found later.
  return insist(attempt);
}
