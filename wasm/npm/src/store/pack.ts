import { result } from "./idb.js";

/**
 * Small entries that are stored together share a record, because a record takes Chromium longer than its
 * bytes do. It is called a pack: see docs/format-browser.md.
 */

/** An entry that is longer than this has a record of its own, in bytes. */
const MEMBER = 16 << 10;
/** The most bytes of entries in a pack: reading one entry reads all of them. */
const PACK = 64 << 10;
/** The most entries in a pack. */
const MEMBERS = 255;
/** The least number of entries for which packs pay off. */
const FEW = 8;

const MAGIC = 0x4b50_5357;
const HEADER = 8;

/** A record with the entry of one name, or with those of several. */
export interface Shelf {
  texts: string[];
  record: unknown;
  isPack: boolean;
}

/** Puts small entries into packs, in their order. */
export function shelved(records: ReadonlyMap<string, unknown>): Shelf[] {
  const shelves: Shelf[] = [];
  let texts: string[] = [];
  let envelopes: Uint8Array[] = [];
  let bytes = 0;
  const close = (): void => {
    if (texts.length === 1) shelves.push({ texts, record: envelopes[0], isPack: false });
    else if (texts.length > 1) shelves.push({ texts, record: packed(envelopes), isPack: true });
    [texts, envelopes, bytes] = [[], [], 0];
  };
  const isWorthWhile = records.size >= FEW;
  for (const [text, record] of records) {
    if (!isWorthWhile || !(record instanceof Uint8Array) || record.length > MEMBER) {
      shelves.push({ texts: [text], record, isPack: false });
      continue;
    }
    if (bytes + record.length > PACK || texts.length === MEMBERS) close();
    texts.push(text);
    envelopes.push(record);
    bytes += record.length;
  }
  close();
  return shelves;
}

/** The place of an entry: the number of its record, and its index in a pack, from 1 on. */
export function placeIn(number: number, member: number): number {
  return number + member / (MEMBERS + 1);
}

/** Returns the number of the record of a place. */
export function numberAt(place: number): number {
  return Math.floor(place);
}

export function isPacked(place: number): boolean {
  return !Number.isInteger(place);
}

/**
 * Returns the entry at a place in a record. In a damaged pack, it is a damaged entry.
 */
export function entryAt(record: unknown, place: number): unknown {
  if (record === undefined || !isPacked(place)) return record;
  if (!(record instanceof Uint8Array)) return NOTHING;
  return memberOf(record, (place - numberAt(place)) * (MEMBERS + 1)) ?? NOTHING;
}

/** Returns all entries of a pack; `undefined` if the record is not a pack. */
export function membersOf(record: unknown): Uint8Array[] | undefined {
  if (!(record instanceof Uint8Array)) return undefined;
  const count = countOf(record);
  if (count === undefined) return undefined;
  return Array.from({ length: count }, (_, at) => memberOf(record, at + 1) ?? NOTHING);
}

/** Reads the entries at places, each record once. */
export async function readPlaces(entries: IDBObjectStore, places: readonly number[]): Promise<unknown[]> {
  const requests = new Map<number, Promise<unknown>>();
  for (const number of places.map(numberAt)) {
    if (!requests.has(number)) requests.set(number, result<unknown>(entries.get(number)));
  }
  return Promise.all(places.map(async (place) => entryAt(await requests.get(numberAt(place)), place)));
}

function packed(envelopes: readonly Uint8Array[]): Uint8Array {
  const first = HEADER + 4 * envelopes.length;
  const pack = new Uint8Array(envelopes.reduce((length, envelope) => length + envelope.length, first));
  const view = new DataView(pack.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, envelopes.length, true);
  let end = first;
  envelopes.forEach((envelope, at) => {
    pack.set(envelope, end);
    end += envelope.length;
    view.setUint32(HEADER + 4 * at, end, true);
  });
  return pack;
}

function countOf(pack: Uint8Array): number | undefined {
  if (pack.length < HEADER) return undefined;
  const view = new DataView(pack.buffer, pack.byteOffset, pack.length);
  if (view.getUint32(0, true) !== MAGIC) return undefined;
  const count = view.getUint32(4, true);
  return count <= MEMBERS && HEADER + 4 * count <= pack.length ? count : undefined;
}

function memberOf(pack: Uint8Array, member: number): Uint8Array | undefined {
  const count = countOf(pack);
  if (count === undefined || member > count) return undefined;
  const view = new DataView(pack.buffer, pack.byteOffset, pack.length);
  const start = member === 1 ? HEADER + 4 * count : view.getUint32(HEADER + 4 * (member - 2), true);
  const end = view.getUint32(HEADER + 4 * (member - 1), true);
  return start <= end && end <= pack.length ? pack.subarray(start, end) : undefined;
}

const NOTHING = new Uint8Array(0);
