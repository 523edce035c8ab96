import { type Database, DIRECTORY, ENTRIES, PIECES } from "./database.js";
import type { Directory } from "./directory.js";
import { complete, Fault, result } from "./idb.js";
import { textOf } from "./name.js";
import { readPlaces } from "./pack.js";
import { type Part, partLength, type Piece, type Pieces, type Stored } from "./record.js";

/**
 * Payloads that are too large for one transaction: Chromium fails if the Blobs of one exceed 450 MiB. Their
 * pieces are stored one by one, and the record that names them last, so that no look-up finds them before. The
 * pieces of a tab that died meanwhile are removed at the next visit.
 */

/** Stores the pieces of the payload of `name`. Returns their description for its record. */
export async function storePieces(
  database: Database,
  name: Uint8Array<ArrayBuffer>,
  parts: readonly Part[],
): Promise<Pieces> {
  const id = crypto.getRandomValues(new Uint32Array(1))[0]!;
  const pieces = { id, lengths: parts.map((part) => partLength(part) ?? 0) };
  try {
    for (const [at, part] of parts.entries()) {
      const transaction = await database.begin(PIECES, "readwrite");
      transaction.objectStore(PIECES).put(part, [name, id, at]);
      await complete(transaction);
    }
  } catch (error) {
    await dropPieces(database, name, pieces).catch(() => {});
    throw error;
  }
  return pieces;
}

/** Whether all pieces exist, checked in the transaction that stores the record that names them. */
export async function arePiecesThere(
  store: IDBObjectStore,
  name: Uint8Array<ArrayBuffer>,
  pieces: Pieces,
): Promise<boolean> {
  const range = IDBKeyRange.bound([name, pieces.id], [name, pieces.id, []]);
  return (await result(store.count(range))) === pieces.lengths.length;
}

/** Returns the pieces, to be read one by one, or `undefined` if one is missing. */
export async function findPieces(
  database: Database,
  name: Uint8Array<ArrayBuffer>,
  pieces: Pieces,
): Promise<Piece[] | undefined> {
  const transaction = await database.begin(PIECES, "readonly");
  if (!(await arePiecesThere(transaction.objectStore(PIECES), name, pieces))) return undefined;
  return pieces.lengths.map((size, at) => ({ size, read: () => readPiece(database, [name, pieces.id, at]) }));
}

async function readPiece(database: Database, key: IDBValidKey): Promise<Part> {
  const transaction = await database.begin(PIECES, "readonly");
  const part: unknown = await result(transaction.objectStore(PIECES).get(key));
  if (partLength(part) === undefined) throw new Fault("truncated");
  return part as Part;
}

/** Removes the pieces under one number, which no record names. */
export async function dropPieces(
  database: Database,
  name: Uint8Array<ArrayBuffer>,
  { id }: Pieces,
): Promise<void> {
  const transaction = await database.begin(PIECES, "readwrite");
  transaction.objectStore(PIECES).delete(IDBKeyRange.bound([name, id], [name, id, []]));
  await complete(transaction);
}

/**
 * Removes all pieces of a name, or those that are not under this number; in a transaction of the caller's.
 */
export function removePieces(store: IDBObjectStore, name: Uint8Array<ArrayBuffer>, except?: number): void {
  if (except === undefined) {
    store.delete(IDBKeyRange.bound([name], [name, []]));
    return;
  }
  store.delete(IDBKeyRange.bound([name], [name, except], false, true));
  store.delete(IDBKeyRange.bound([name, except, []], [name, []]));
}

/** Removes the pieces that no record names: of tabs that died, and of values that were replaced. */
export async function sweepPieces(database: Database, directory: Directory): Promise<void> {
  const keys = await result((await database.begin(PIECES, "readonly")).objectStore(PIECES).getAllKeys());
  const names = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const key of keys) {
    const [name] = Array.isArray(key) ? key : [];
    if (name instanceof ArrayBuffer) names.set(textOf(new Uint8Array(name)), new Uint8Array(name));
  }
  for (const name of names.values()) await sweepPiecesOf(database, directory, name);
}

/** Removes the pieces of one name that no record names. */
export async function sweepPiecesOf(
  database: Database,
  directory: Directory,
  name: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const transaction = await database.begin([ENTRIES, DIRECTORY, PIECES], "readwrite");
  await directory.catchUp(database, transaction);
  const place = directory.placeOf(name);
  const found = place === undefined ? [] : await readPlaces(transaction.objectStore(ENTRIES), [place]);
  const record = found[0] as Stored | undefined;
  const named = record === undefined || record instanceof Uint8Array ? undefined : record.p?.id;
  removePieces(transaction.objectStore(PIECES), name, named);
  await complete(transaction);
}
