// Reads and alters the stored bytes of an entry through IndexedDB alone.
//
// A small value is one Uint8Array, the whole envelope. A large one is an object: h is the head, c its
// checksum, and b the payload in parts. Both are looked at as one row of bytes here.

import { isSame, toHex } from "./words.js";

/** Where the header tells how long the key is, and where the key is: docs/format.md. */
const KEY_LENGTH_AT = 20;
const KEY_AT = 64;

export class Raw {
  #name;
  #database;
  /** The number of an entry, by its key: when its bytes are altered they no longer tell. */
  #places = new Map();

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
    const place = await this.#place(key);
    await this.#inStore("readwrite", (store) => store.put(record, place));
  }

  async #record(key) {
    const place = await this.#place(key);
    const record = await this.#inStore("readonly", (store) => store.get(place));
    if (record === undefined) throw new Error("there is no such entry to be damaged");
    return record;
  }

  async #place(key) {
    const name = toHex(key);
    const known = this.#places.get(name);
    // A value that replaces another one has another number.
    if (known === undefined || (await this.#inStore("readonly", (store) => store.getKey(known))) === undefined) {
      const [places, records] = await Promise.all([
        this.#inStore("readonly", (store) => store.getAllKeys()),
        this.#inStore("readonly", (store) => store.getAll()),
      ]);
      const at = records.findIndex((record) => isSame(storedKey(record), key));
      if (at < 0) throw new Error("there is no such entry to be damaged");
      this.#places.set(name, places[at]);
    }
    return this.#places.get(name);
  }

  /** The result of one request, once its transaction is stored. */
  async #inStore(mode, ask) {
    this.#database ??= await opened(this.#name);
    const transaction = this.#database.transaction("entries", mode, { durability: "relaxed" });
    const request = ask(transaction.objectStore("entries"));
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

function storedKey(record) {
  const head = record instanceof Uint8Array ? record : record.h;
  const length = new DataView(head.buffer, head.byteOffset).getUint32(KEY_LENGTH_AT, true);
  return head.subarray(KEY_AT, KEY_AT + length);
}

async function bytesOf(record) {
  if (record instanceof Uint8Array) return record.slice();
  return new Uint8Array(await new Blob([record.h, ...record.b]).arrayBuffer());
}
