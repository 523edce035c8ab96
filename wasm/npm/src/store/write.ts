import { type Database, DIRECTORY, ENTRIES, PIECES } from "./database.js";
import type { Directory, Done } from "./directory.js";
import { abort, complete, Fault, fault } from "./idb.js";
import type { Journal } from "./journal.js";
import { arePiecesThere, dropPieces, storePieces, sweepPiecesOf } from "./pieces.js";
import { type Entry, PART, type Pieces } from "./record.js";

/**
 * Stores entries in one transaction, all of them or none. If the browser's quota is exceeded, evicts as many
 * bytes and tries once more. Rejects with a {@link Fault}; also if `isStill`, which runs when no other write can
 * interfere any more, returns that the entries must not be stored.
 */
export async function store(
  database: Database,
  directory: Directory,
  journal: Journal,
  entries: readonly Entry[],
  isStill?: () => boolean,
): Promise<void> {
  const once = (): Promise<void> => put(database, directory, journal, entries, isStill);
  // A tab sweeps only when it opens the database, so one retry suffices.
  const attempt = (): Promise<void> => once().catch((error) => (error === SWEPT ? once() : Promise.reject(error)));
  try {
    await attempt();
  } catch (error) {
    const needed = entries.reduce((sum, entry) => sum + entry.size, 0);
    const isFull = fault(error).reason === "no_space";
    // If nothing can be evicted, trying again is useless.
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
    // The replaced value may have pieces.
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
    // Otherwise the browser first waits for further requests.
    transaction.commit?.();
  } catch (error) {
    // All or nothing: the other entries are not acknowledged either.
    abort(transaction);
    throw error;
  }
  await complete(transaction);
  await done();
}

/** Another tab that has just opened the database took the value's pieces for those of a dead tab. */
const SWEPT = new Fault("unavailable");

/** Whether the browser's quota could ever hold this many bytes. */
async function couldEverFit(bytes: number): Promise<boolean> {
  try {
    const { quota } = await navigator.storage.estimate();
    return quota === undefined || bytes <= quota;
  } catch {
    return true;
  }
}
