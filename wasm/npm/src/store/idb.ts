/** IndexedDB's events as promises, and its errors as reasons. */

/**
 * A failure of IndexedDB: a reason of the core, or `"closing"`, after which the database can be opened again.
 */
export class Fault extends Error {
  constructor(readonly reason: string, options?: ErrorOptions) {
    super(reason, options);
  }
}

/** Waits for the result of a request. Earlier requests of the same transaction are then done, too. */
export function result<T>(request: IDBRequest<T>): Promise<T> {
  const given = new Promise<T>((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(fault(request.error));
  });
  // If a later request throws, no code awaits this one, and its rejection must not reach the page.
  given.catch(() => undefined);
  return given;
}

/** Passes the results of requests of one transaction to `work` as they arrive, in their order. */
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
 * Waits until the transaction is committed. Successful requests do not imply that: over quota the transaction
 * aborts after them.
 */
export function complete(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(fault(transaction.error));
  });
}

/**
 * Aborts a transaction, if it has not ended: the browser would otherwise commit the requests that did not fail.
 */
export function abort(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // It has ended already.
  }
}

/** Does the work of a transaction, completely or not at all, and waits until it is committed. */
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
 * Retries a removal that must not fail: after one fault of the browser, and finally without writing anything,
 * because a database over its quota allows removals only.
 */
export function insist<T>(attempt: (mayWrite: boolean) => Promise<T>): Promise<T> {
  const again = (error: unknown): Promise<T> => attempt(fault(error).reason !== "no_space");
  return attempt(true).catch(again).catch(() => attempt(false));
}

/** Converts an exception or the error of a request to a fault. */
export function fault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  return new Fault(REASONS[(error as DOMException | null)?.name ?? ""] ?? "unavailable", { cause: error });
}

const REASONS: Record<string, string> = {
  QuotaExceededError: "no_space",
  // The connection is closing: another tab deletes or upgrades the database, or site data was cleared.
  InvalidStateError: "closing",
  VersionError: "newer_version",
  // The browser cannot store the value: it is too large, or of an unsupported kind.
  DataError: "too_long",
  DataCloneError: "too_long",
};
