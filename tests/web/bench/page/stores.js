// The stores that take part. Each opens under a name of its own, and then keeps bytes under text.

/** What `open(name)` of each resolves to: `put`, `get`, and what else it can do itself. */
export const stores = {
  warmstart: async (name) => {
    const { open } = await import("/warmstart/dist/index.js");
    const cache = await open({ name });
    return {
      put: async (key, bytes) => expectStored([await cache.put(key, bytes)]),
      get: (key) => cache.get(key),
      putMany: async (entries) => expectStored(await cache.putMany(entries)),
      getMany: (keys) => cache.getMany(keys),
      hasAll: (keys) => Promise.all(keys.map((key) => cache.has(key))),
      list: () => cache.entries(),
      flush: () => cache.flush(),
    };
  },

  "idb-keyval": async (name) => {
    const { createStore, get, getMany, keys, set, setMany } = await import("/node_modules/idb-keyval/dist/index.js");
    const store = createStore(`idb-keyval-${name}`, "keyval");
    await get("nothing", store);
    return {
      put: (key, bytes) => set(key, bytes, store),
      get: (key) => get(key, store),
      putMany: (entries) => setMany(entries, store),
      getMany: (wanted) => getMany(wanted, store),
      hasAll: async (wanted) => {
        const there = new Set(await keys(store));
        return wanted.map((key) => there.has(key));
      },
    };
  },

  localforage: async (name) => {
    await script("/node_modules/localforage/dist/localforage.min.js");
    const { localforage } = globalThis;
    const store = localforage.createInstance({ name: `localforage-${name}`, driver: localforage.INDEXEDDB });
    await store.ready();
    return { put: (key, bytes) => store.setItem(key, bytes), get: (key) => store.getItem(key) };
  },

  "Cache API": async (name) => {
    const cache = await caches.open(`cache-api-${name}`);
    return {
      put: (key, bytes) => cache.put(`/${key}`, new Response(bytes)),
      get: async (key) => (await cache.match(`/${key}`))?.arrayBuffer(),
    };
  },

  "raw IndexedDB": async (name) => {
    const request = indexedDB.open(`raw-${name}`);
    request.onupgradeneeded = () => request.result.createObjectStore("values");
    const database = await succeeded(request);
    const begin = (mode) => {
      const transaction = database.transaction("values", mode);
      return { transaction, values: transaction.objectStore("values") };
    };
    const putMany = (entries) => {
      const { transaction, values } = begin("readwrite");
      for (const [key, bytes] of entries) values.put(bytes, key);
      return completed(transaction);
    };
    return {
      put: (key, bytes) => putMany([[key, bytes]]),
      get: (key) => succeeded(begin("readonly").values.get(key)),
      putMany,
      getMany: (keys) => {
        const { values } = begin("readonly");
        return Promise.all(keys.map((key) => succeeded(values.get(key))));
      },
      hasAll: async (keys) => {
        const { values } = begin("readonly");
        const found = await Promise.all(keys.map((key) => succeeded(values.getKey(key))));
        return found.map((key) => key !== undefined);
      },
    };
  },

  tvmjs: async (name) => {
    await script("/node_modules/@mlc-ai/web-runtime/lib/index.js");
    const cache = new globalThis.tvmjs.ArtifactIndexedDBCache(`tvmjs-${name}`);
    await cache.hasAllKeys([]);
    return {
      // What its addToCache calls with what it has fetched.
      put: (key, bytes) => cache.addToIndexedDB(key, new Response(bytes), "arraybuffer"),
      get: (key) => cache.fetchWithCache(key, "arraybuffer"),
      hasAll: async (keys) => {
        const all = await cache.hasAllKeys(keys);
        return keys.map(() => all);
      },
    };
  },
};

/** Fails if a value was refused, and so perhaps not written. */
function expectStored(stored) {
  if (stored.includes(false)) throw new Error("warmstart refused a value");
}

/** Loads a package that is no module. */
function script(url) {
  if (document.querySelector(`script[src="${url}"]`)) return undefined;
  const element = document.createElement("script");
  element.src = url;
  document.head.append(element);
  return new Promise((resolve, reject) => {
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${url} could not be loaded`));
  });
}

function succeeded(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function completed(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}
