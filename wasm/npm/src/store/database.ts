/** The object store with the records of entries, each under the text of its key. */
export const VALUES = "values";
/** The object store with the rows of the log, numbered. */
export const LOG = "log";
/** The object store with the pieces of payloads that are too large for one transaction. */
export const PIECES = "pieces";
/** All object stores. */
export const STORES = [VALUES, LOG, PIECES];

/** The version of the layout. */
const VERSION = 2;
/** The object stores of version 1, which was never released. */
const FIRST = ["directory", "entries", "journal", "notes", "pieces"];

/** The timeout of opening, in milliseconds: another tab may keep the database open. */
const TIMEOUT = 3000;
/** The number of timers that make up the timeout. While a page computes, only one of them can elapse. */
const STRETCHES = 3;

/** A failure of IndexedDB, with a reason of the core. */
export class DbError extends Error {
  constructor(readonly reason: string, options?: ErrorOptions) {
    super(reason, options);
  }
}

/** Converts an exception or the error of a request. */
export function dbError(error: unknown): DbError {
  if (error instanceof DbError) return error;
  return new DbError(REASONS[(error as DOMException | null)?.name ?? ""] ?? "unavailable", { cause: error });
}

/** Waits for the result of a request. Earlier requests of the same transaction are then done, too. */
export function result<T>(request: IDBRequest<T>): Promise<T> {
  const given = new Promise<T>((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(dbError(request.error));
  });
  // If a later request throws, no code awaits this one, and its rejection must not reach the page.
  given.catch(() => undefined);
  return given;
}

/**
 * Waits until the transaction is committed. Successful requests do not imply that: over quota the transaction
 * aborts after them.
 */
export function complete(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(dbError(transaction.error));
  });
}

/** Aborts a transaction, if it has not ended: the browser would otherwise commit the requests that did not fail. */
export function abort(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // It has ended already.
  }
}

/** Opens the database, or creates it. Rejects with a {@link DbError}. */
export async function connect(name: string): Promise<IDBDatabase> {
  let request: IDBOpenDBRequest;
  try {
    // Reading it throws if a page may not have storage; in some private windows it is undefined.
    request = globalThis.indexedDB.open(name, VERSION);
  } catch (error) {
    throw dbError(error);
  }
  request.onupgradeneeded = () => upgrade(request);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    const wait = (stretches: number) => {
      if (stretches === 0) resolve(undefined);
      else timer = setTimeout(wait, TIMEOUT / STRETCHES, stretches - 1);
    };
    wait(STRETCHES);
  });
  const opened = await Promise.race([result(request), late]).finally(() => clearTimeout(timer));
  if (opened === undefined) {
    // A late connection would only block other tabs.
    request.onsuccess = () => request.result.close();
    throw new DbError("busy");
  }
  if (STORES.every((store) => opened.objectStoreNames.contains(store))) return opened;
  opened.close();
  throw new DbError("foreign");
}

/** Creates the object stores. Removes those of version 1, and leaves a database of another program as it is. */
function upgrade({ result: database, transaction }: IDBOpenDBRequest): void {
  const there = [...database.objectStoreNames];
  if (there.length > 0 && there.join() !== FIRST.join()) return transaction?.abort();
  for (const store of there) database.deleteObjectStore(store);
  database.createObjectStore(VALUES);
  database.createObjectStore(LOG, { autoIncrement: true });
  database.createObjectStore(PIECES);
}

const REASONS: Record<string, string> = {
  QuotaExceededError: "no_space",
  VersionError: "newer_version",
  // The browser cannot store the value: it is too large, or of an unsupported kind.
  DataError: "too_long",
  DataCloneError: "too_long",
};
