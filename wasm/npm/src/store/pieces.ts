import { complete, dbError, PIECES } from "./database.js";
import { type Part, partLength, type Pieces } from "./record.js";

/**
 * Payloads that are too large for one transaction: Chromium fails if the Blobs of one exceed 450 MiB. Their pieces are
 * stored one by one, and the record that names them last, so that no look-up finds them before. Their id begins with the
 * time, in milliseconds since 1970 UTC.
 */

/** Stores the pieces of a payload. If there is no space for one, calls `makeRoom` with its length, and retries once. */
export async function storePieces(
  parts: readonly Part[],
  begin: () => Promise<IDBTransaction>,
  makeRoom: (bytes: number) => Promise<unknown>,
): Promise<Pieces> {
  const id = `${Date.now()}-${Math.random()}`;
  const lengths = parts.map((part) => partLength(part) ?? 0);
  const store = async (part: Part, at: number): Promise<void> => {
    const transaction = await begin();
    transaction.objectStore(PIECES).put(part, [id, at]);
    await complete(transaction);
  };
  try {
    for (const [at, part] of parts.entries()) {
      await store(part, at).catch(async (error: unknown) => {
        if (dbError(error).reason !== "no_space" || !(await makeRoom(lengths[at]!))) throw error;
        await store(part, at);
      });
    }
  } catch (error) {
    await removePieces(id, begin).catch(() => undefined);
    throw error;
  }
  return { id, lengths };
}

/** Removes the pieces with this id. */
export async function removePieces(id: string, begin: () => Promise<IDBTransaction>): Promise<void> {
  const transaction = await begin();
  dropPieces(transaction, id);
  await complete(transaction);
}

/** Requests the removal of the pieces with this id. */
export function dropPieces(transaction: IDBTransaction, id: string): void {
  transaction.objectStore(PIECES).delete(IDBKeyRange.bound([id], [id, []]));
}

/** Removes pieces that no entry names. Keeps those younger than {@link YOUNG_MS}, which a tab may be storing. */
export function sweepPieces(transaction: IDBTransaction, keys: IDBValidKey[], named: ReadonlySet<unknown>): void {
  const now = Date.now();
  for (const key of keys) {
    const id: unknown = Array.isArray(key) ? key[0] : undefined;
    const isYoung = Math.abs(now - Number.parseInt(String(id), 10)) < YOUNG_MS;
    if (!isYoung && !named.has(id)) transaction.objectStore(PIECES).delete(key);
  }
}

/** The time in milliseconds for which a tab may be storing one payload. */
const YOUNG_MS = 60 * 60 * 1000;
