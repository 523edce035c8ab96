// Reads and alters the stored bytes of an entry through IndexedDB alone.
//
// A small value is one Uint8Array, the whole envelope. A large one is an object: h is the head, c its
// checksum, and b the payload in parts. Both are looked at as one row of bytes here.

export class Raw {
  #name;
  #database;

  constructor(name) {
    this.#name = `warmstart:${name}`;
  }

  /** The bytes of an entry, and how many of them are the head where it is apart. */
  async read(key) {
    const record = await this.#record(key);
    return { bytes: await bytesOf(record), head: record instanceof Uint8Array ? undefined : record.h.length };
  }

  /** Puts other bytes in its place, divided as they were. */
  async write(key, bytes) {
    const record = await this.#record(key);
    if (record instanceof Uint8Array) return this.#put(key, bytes);
    const [head, payload] = [bytes.slice(0, record.h.length), bytes.slice(record.h.length)];
    const isBlob = record.b[0] instanceof Blob;
    const parts = payload.length === 0 ? [] : [isBlob ? new Blob([payload]) : payload.buffer];
    return this.#put(key, { h: head, c: record.c, b: parts });
  }

  /** Puts what is stored under another key in its place. */
  async copy(key, from) {
    return this.#put(key, await this.#record(from));
  }

  /** Lets the database go, so that it can be deleted. */
  close() {
    this.#database?.close();
  }

  async #put(key, record) {
    await this.#inStore("readwrite", (store) => store.put(record, idOf(key)));
  }

  async #record(key) {
    const record = await this.#inStore("readonly", (store) => store.get(idOf(key)));
    if (record === undefined) throw new Error("there is no such entry to be damaged");
    return record;
  }

  /** The result of one request, once its transaction is stored. */
  async #inStore(mode, ask) {
    this.#database ??= await opened(this.#name);
    const transaction = this.#database.transaction("values", mode, { durability: "relaxed" });
    const request = ask(transaction.objectStore("values"));
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    return request.result;
  }
}

function opened(name) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name);
    request.onupgradeneeded = () => reject(new Error(`there is no database ${name}`));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** The key of a record: docs/format-browser.md. */
function idOf(key) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(key);
  } catch {
    return `\ud800${String.fromCharCode(...key)}`;
  }
}

async function bytesOf(record) {
  if (record instanceof Uint8Array) return record.slice();
  return new Uint8Array(await new Blob([record.h, ...record.b]).arrayBuffer());
}
