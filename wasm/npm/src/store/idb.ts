/** IndexedDB's events as promises, and its errors as reasons. */

/**
 * What goes wrong with IndexedDB: a reason of the core, or `"closing"`, after which the database can be
 * opened again.
 */
export class Fault extends Error {
  constructor(readonly reason: string, options?: ErrorOptions) {
    super(reason, options);
  }
}

/** Waits for the result of a request. Those made before it in the same transaction are done then, too. */
export function result<T>(request: IDBRequest<T>): Promise<T> {
  const given = new Promise<T>((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(fault(request.error));
  });
  // Where the request after it throws, nobody waits for this one any more. A page is not to be told of that.
  given.catch(() => undefined);
  return given;
}

/** Hands the results of requests of one transaction to `work` as they arrive, which is in their order. */
export function eachResult<T>(
  requests: readonly IDBRequest<T>[],
  work: (result: T, at: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let failed = false;
    const fail = (error: unknown): void => {
      failed = true;
      reject(error);
    };
    requests.forEach((request, at) => {
      request.onsuccess = () => {
        if (failed) return;
        try {
          work(request.result, at);
        } catch (error) {
          return fail(error);
        }
        if (at === requests.length - 1) resolve();
      };
      request.onerror = () => fail(fault(request.error));
    });
  });
}

/**
 * Waits until the transaction is stored. Nothing else means that it is: over quota its requests succeed, and
 * the transaction aborts afterwards.
 */
export function complete(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(fault(transaction.error));
  });
}

/**
 * Takes back what a transaction did, if it has not ended: the browser would store the half of it that did not
 * fail.
 */
export function abort(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // It has ended already.
  }
}

/** Does the work of a transaction, all of it or nothing, and waits until it is stored. */
export async function whole<T>(transaction: IDBTransaction, work: () => Promise<T>): Promise<T> {
  let done: T;
  try {
    done = await work();
  } catch (error) {
    abort(transaction);
    throw error;
  }
  await complete(transaction);
  return done;
}

/**
 * Attempts what must not be left undone: again after one fault of the browser, and at last without writing anything, since a database
 * that is over its quota lets entries go but takes none.
 */
export function insist<T>(attempt: (mayWrite: boolean) => Promise<T>): Promise<T> {
  const again = (error: unknown): Promise<T> => attempt(fault(error).reason !== "no_space");
  return attempt(true).catch(again).catch(() => attempt(false));
}

/** What a call threw or a request ended with, as a fault. */
export function fault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  return new Fault(REASONS[(error as DOMException | null)?.name ?? ""] ?? "unavailable", { cause: error });
}

const REASONS: Record<string, string> = {
  QuotaExceededError: "no_space",
  // The connection is closing: another tab deletes or upgrades the database, or site data was cleared.
  InvalidStateError: "closing",
  VersionError: "newer_version",
  // The browser does not take the value as it is: too large, or a kind that it cannot store.
  DataError: "too_long",
  DataCloneError: "too_long",
};
