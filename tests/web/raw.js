// IndexedDB without the package, to inspect and to damage the package's databases.

/** The name of the database of a cache. */
export const databaseOf = (name) => `warmstart:${name}`;

/** Opens a database, optionally in a version. Closes it on a version change unless `stubborn`. */
export function openRaw(database, { version, upgrade, stubborn = false } = {}) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(database, version);
    request.onupgradeneeded = () => upgrade?.(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error(`another connection keeps ${database} open`));
    request.onsuccess = () => {
      const opened = request.result;
      if (!stubborn) opened.onversionchange = () => opened.close();
      resolve(opened);
    };
  });
}

/** Deletes a database. Resolves with whether another connection kept it open. */
export function deleteRaw(database) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(database);
    request.onsuccess = () => resolve("deleted");
    request.onblocked = () => resolve("blocked");
    request.onerror = () => reject(request.error);
  });
}

/** Everything in an object store, as `[key, value]`. */
export async function records(name, store = "values") {
  const database = await openRaw(databaseOf(name));
  try {
    const transaction = database.transaction(store);
    const [keys, values] = await Promise.all([
      done(transaction.objectStore(store).getAllKeys()),
      done(transaction.objectStore(store).getAll()),
    ]);
    return keys.map((key, at) => [key, values[at]]);
  } finally {
    database.close();
  }
}

/** How many entries a cache has. */
export async function stored(name) {
  return (await records(name)).length;
}

/** Puts `change(value)` in the place of every value; without a value, removes it. */
export async function rewrite(name, change, store = "values") {
  const found = await records(name, store);
  const changed = await Promise.all(found.map(async ([key, value]) => [key, await change(value, key)]));
  const database = await openRaw(databaseOf(name));
  try {
    const transaction = database.transaction(store, "readwrite");
    for (const [key, value] of changed) {
      if (value === undefined) transaction.objectStore(store).delete(key);
      else transaction.objectStore(store).put(value, key);
    }
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
