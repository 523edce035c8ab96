// Damages a stored weight through the storage's own interface, as a failing disk would: neither cache takes part.

import { DEFAULT_CACHE } from "./files.js";

/** The weight that is damaged: it is added to every token's embedding. */
const WEIGHT = "encoder.layer.5.output.LayerNorm.bias";
/** Smaller values cannot be the model. */
const LEAST = 1e6;

/** Flips the bits of one byte of the model in the cache of transformers.js. Returns the weight's old and new value. */
export async function damageDefaultCache(url) {
  const cache = await caches.open(DEFAULT_CACHE);
  const stored = await cache.match(url);
  const bytes = new Uint8Array(await stored.arrayBuffer());
  const change = flip(bytes);
  await cache.put(url, new Response(bytes, { headers: stored.headers }));
  return change;
}

/** Does the same in the database of a cache of warmstart, however its records are laid out. */
export async function damageWarmstart(name) {
  const database = await requested(indexedDB.open(`warmstart:${name}`));
  try {
    for (const store of database.objectStoreNames) {
      const read = () => database.transaction(store).objectStore(store);
      for (const key of await requested(read().getAllKeys())) {
        const record = await requested(read().get(key));
        const change = await damaged(record);
        if (change === undefined) continue;
        const transaction = database.transaction(store, "readwrite");
        const target = transaction.objectStore(store);
        target.put(record, ...(target.keyPath === null ? [key] : []));
        // Only then is it stored: this worker ends right after.
        await new Promise((resolve, reject) => {
          transaction.oncomplete = resolve;
          transaction.onabort = () => reject(transaction.error);
        });
        return change;
      }
    }
  } finally {
    database.close();
  }
  throw new Error("the model is not stored, so it cannot be damaged; reload the page first");
}

/** Replaces the part of a record that contains the weight. */
async function damaged(record) {
  for (const [name, value] of Object.entries(record ?? {})) {
    const isBytes = value instanceof Blob || value instanceof ArrayBuffer || ArrayBuffer.isView(value);
    if (!isBytes) {
      const change = typeof value === "object" ? await damaged(value) : undefined;
      if (change !== undefined) return change;
    } else if ((value.size ?? value.byteLength) >= LEAST) {
      const bytes = new Uint8Array(await new Blob([value]).arrayBuffer());
      const change = flip(bytes);
      if (change === undefined) continue;
      record[name] = value instanceof Blob ? new Blob([bytes], { type: value.type }) : value instanceof ArrayBuffer ? bytes.buffer : bytes;
      return change;
    }
  }
  return undefined;
}

/** Flips all bits of the byte with sign and exponent of the weight's first number. Returns both values, if it is there. */
function flip(bytes) {
  // One character for each byte.
  const text = new TextDecoder("latin1").decode(bytes);
  const found = text.lastIndexOf(WEIGHT);
  if (found < 0) return undefined;
  // Behind the name stand the field's tag and its length, in three bytes.
  const at = found + WEIGHT.length + 3;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const before = view.getFloat32(at, true);
  bytes[at + 3] ^= 0xff;
  return { before, after: view.getFloat32(at, true) };
}

function requested(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
