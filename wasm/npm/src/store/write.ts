import { type Database, DIRECTORY, ENTRIES, PIECES } from "./database.js";
import type { Directory, Done } from "./directory.js";
import { abort, complete, Fault, fault } from "./idb.js";
import type { Journal } from "./journal.js";
import { arePiecesThere, dropPieces, storePieces, sweepPiecesOf } from "./pieces.js";
import { type Entry, PART, type Pieces } from "./record.js";

/**
 * Stores entries in one transaction, all of them or none. Where the browser has no space for them, evicts as
 * much and tries once more. Rejects with a {@link Fault}; also if `isStill`, which is asked once nobody else can
 * store anything in between, says that they are to be stored no more.
 */
export async function store(
  database: Database,
  directory: Directory,
  journal: Journal,
  entries: readonly Entry[],
  isStill?: () => boolean,
): Promise<void> {
  const once = (): Promise<void> => put(database, directory, journal, entries, isStill);
  // A tab sweeps when it is opened, and so does not do it again.
  const attempt = (): Promise<void> => once().catch((error) => (error === SWEPT ? once() : Promise.reject(error)));
  try {
    await attempt();
  } catch (error) {
    const needed = entries.reduce((sum, entry) => sum + entry.size, 0);
    const isFull = fault(error).reason === "no_space";
    // Where nothing is left to go, trying again is no use.
    const isHopeless = !isFull || !(await couldEverFit(needed)) || (await journal.makeRoom(needed)) === 0;
    if (isHopeless) throw fault(error);
    await attempt();
  }
}

async function put(
  database: Database,
  directory: Directory,
  journal: Journal,
  entries: readonly Entry[],
  isStill: (() => boolean) | undefined,
): Promise<void> {
  const pieces = new Map<Entry, Pieces>();
  try {
    for (const entry of entries) {
      const { name, record } = entry;
      if (record instanceof Uint8Array || record.b.length < 2) continue;
      pieces.set(entry, await storePieces(database, name, record.b));
    }
    await putRecords(database, directory, entries, pieces, isStill);
  } catch (error) {
    for (const [{ name }, stored] of pieces) await dropPieces(database, name, stored).catch(() => {});
    throw error;
  }
  for (const entry of entries) {
    // What it replaces may have had pieces.
    const { name } = entry;
    if (pieces.has(entry) || journal.ledger.size_of(name) > PART) {
      await sweepPiecesOf(database, directory, name).catch(() => {});
    }
  }
}

async function putRecords(
  database: Database,
  directory: Directory,
  entries: readonly Entry[],
  pieces: ReadonlyMap<Entry, Pieces>,
  isStill: (() => boolean) | undefined,
): Promise<void> {
  const stores = pieces.size > 0 ? [ENTRIES, DIRECTORY, PIECES] : [ENTRIES, DIRECTORY];
  const begun = database.begin(stores, "readwrite");
  const transaction = begun instanceof Promise ? await begun : begun;
  let done: Done;
  try {
    for (const [{ name }, stored] of pieces) {
      const areThere = await arePiecesThere(transaction.objectStore(PIECES), name, stored);
      if (!areThere) throw SWEPT;
    }
    if (isStill !== undefined) {
      await directory.catchUp(database, transaction);
      if (!isStill()) throw new Fault("busy");
    }
    const records = entries.map((entry) => {
      const stored = pieces.get(entry);
      return { name: entry.name, record: stored ? { ...entry.record, b: [], p: stored } : entry.record };
    });
    const putting = directory.put(database, transaction, records);
    done = putting instanceof Promise ? await putting : putting;
    // Otherwise the browser first waits to hear that nothing else comes.
    transaction.commit?.();
  } catch (error) {
    // All or nothing: what would be stored beside it is not acknowledged.
    abort(transaction);
    throw error;
  }
  await complete(transaction);
  await done();
}

/** Another tab that has just opened the database took the pieces of a value for those of a dead one. */
const SWEPT = new Fault("unavailable");

/** Whether so many bytes are fewer than all that the browser would ever give. */
async function couldEverFit(bytes: number): Promise<boolean> {
  try {
    const { quota } = await navigator.storage.estimate();
    return quota === undefined || bytes <= quota;
  } catch {
    return true;
  }
}
