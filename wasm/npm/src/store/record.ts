import type { Engine } from "../engine.js";
import { reasonOf } from "../reasons.js";
import { nameOf } from "./name.js";

/** A part of the payload of a large value, of at most {@link PART} bytes. */
export type Part = Blob | ArrayBuffer;

/** The most bytes of a part: Chromium cannot store one Blob of 400 MiB or more. */
export const PART = 128 << 20;

/** The longest small record, in bytes: the longest head and a payload. */
const SMALL = 17 << 20;

/** A part that stays in the database until it is asked for. */
export interface Piece {
  /** In bytes. */
  size: number;
  /** Reads it. Rejects if it is gone. */
  read(): Promise<Part>;
}

/** The metadata of an entry. */
export interface About {
  /** Encoded metadata: the recipe and the attributes. */
  metadata: Uint8Array;
  /** When it was made, in milliseconds since 1970 UTC. */
  createdMs: number;
  /** How long that took, in milliseconds. */
  buildMs: number;
}

/**
 * A small value is encoded already, `payload` says how long it is in bytes; a large one is in parts behind
 * the head that was made for it.
 */
export type Item = About & { key: Uint8Array } & (
    | { envelope: Uint8Array; payload: number; head?: undefined; parts?: undefined }
    | { envelope?: undefined; head: Uint8Array; parts: Part[] }
  );

/**
 * A value that was found. A small one is verified, a large one only by `Check`; `size` is that of the payload,
 * in bytes.
 */
export type Found = About & { size: number } & (
    | { bytes: Uint8Array<ArrayBuffer>; head?: undefined; parts?: undefined }
    | { bytes?: undefined; head: Uint8Array; parts: (Part | Piece)[] }
  );

/**
 * A record in IndexedDB: the envelope of a small value, or head `h`, its checksum `c` and the payload `b` of a
 * large one. If the payload is too large for one transaction, `p` has the number and the lengths of its pieces.
 */
export type Stored = Uint8Array | { h: Uint8Array; c: number; b: Part[]; p?: Pieces };

/** The pieces of a payload, each in a record of its own. */
export interface Pieces {
  /** Of this value of the key, and of no other. */
  id: number;
  /** Bytes of each piece. */
  lengths: number[];
}

/** An entry that is ready to be stored. */
export interface Entry {
  name: Uint8Array<ArrayBuffer>;
  record: Stored;
  metadata: Uint8Array;
  /** Bytes of the whole entry. */
  size: number;
  /** Bytes of the payload. */
  payload: number;
}

/** The entry that an item becomes. */
export function entryOf(engine: Engine, item: Item): Entry {
  const name = nameOf(engine, item.key);
  const { metadata, envelope } = item;
  if (envelope !== undefined) {
    return { name, record: envelope, metadata, size: envelope.length, payload: item.payload };
  }
  const payload = partsLength(item.parts) ?? 0;
  const record = { h: item.head, c: engine.head_sum(item.head), b: item.parts };
  return { name, record, metadata, size: item.head.length + payload, payload };
}

/** Reads records, one after the other: `reader` tells about the last one. */
export class Records {
  readonly reader: InstanceType<Engine["Reader"]>;

  #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.reader = new engine.Reader();
  }

  /** Reads a record from the database. Returns the reason why it cannot be read, or `undefined`. */
  read(record: unknown): string | undefined {
    if (record instanceof Uint8Array) {
      // Reading copies it to the engine's memory, which never shrinks.
      if (record.length > SMALL) return "malformed";
      return reasonOf(this.#engine, this.reader.small(record));
    }
    if (!isLarge(record)) return "foreign";
    const payload = payloadLength(record);
    if (payload === undefined) return "foreign";
    return reasonOf(this.#engine, this.reader.large(record.h, record.c, payload));
  }

  /** Reads the record of a key. Gives what was found, or the reason of the miss. */
  find(record: unknown, key: Uint8Array): Found | string {
    if (record === undefined) return "absent";
    const reason = this.read(record);
    if (reason !== undefined) return reason;
    if (!this.reader.is_of(key)) return "key_mismatch";
    return this.#found(record as Stored);
  }

  /** Reads the record under a name. Gives the reason why it should not be there, or nothing. */
  under(record: unknown, name: Uint8Array): string | undefined {
    return this.read(record) ?? (this.reader.is_under(name) ? undefined : "key_mismatch");
  }

  /** What is known of the entry that was read last. */
  about(): About {
    const { reader } = this;
    return { metadata: this.metadata(), createdMs: reader.number(CREATED), buildMs: reader.number(BUILD) };
  }

  /** The encoded metadata of the entry that was read last. */
  metadata(): Uint8Array {
    return this.reader.number(METADATA) > 0 ? this.reader.metadata() : NOTHING;
  }

  /** The bytes of the whole entry that was read last. */
  size(): number {
    return this.reader.number(SIZE);
  }

  /** The bytes of its payload. */
  payload(): number {
    return this.size() - this.reader.number(PAYLOAD);
  }

  #found(record: Stored): Found {
    const about = { ...this.about(), size: this.payload() };
    if (!(record instanceof Uint8Array)) return { ...about, head: record.h, parts: record.b };
    return { ...about, bytes: record.slice(record.length - about.size) as Uint8Array<ArrayBuffer> };
  }
}

/** How many bytes of an entry there are, whatever its head says. */
export function seenLength(record: Stored): number {
  return record instanceof Uint8Array ? record.length : record.h.length + (payloadLength(record) ?? 0);
}

/** Whether the reason is damage, so that the entry may be removed. Other entries are intact. */
export function isDamage(reason: string): boolean {
  return DAMAGE.has(reason);
}

/** The numbers that the engine's `Reader` tells of an entry. */
const [METADATA, PAYLOAD, SIZE, CREATED, BUILD] = [0, 1, 2, 3, 4];

const NOTHING = new Uint8Array(0);
const DAMAGE = new Set(["truncated", "foreign", "malformed", "checksum_mismatch", "key_mismatch"]);

function isLarge(record: unknown): record is Exclude<Stored, Uint8Array> {
  if (typeof record !== "object" || record === null) return false;
  const { h, c, b } = record as { h?: unknown; c?: unknown; b?: unknown };
  return h instanceof Uint8Array && typeof c === "number" && Array.isArray(b);
}

function payloadLength({ b, p }: Exclude<Stored, Uint8Array>): number | undefined {
  if (p === undefined) return partsLength(b);
  const { id, lengths } = (p ?? {}) as Partial<Pieces>;
  if (typeof id !== "number" || !Array.isArray(lengths)) return undefined;
  if (!lengths.every((length) => Number.isSafeInteger(length) && length > 0)) return undefined;
  return lengths.reduce((sum, length) => sum + length, 0);
}

/** The bytes of one part; nothing if it is none. */
export function partLength(part: unknown): number | undefined {
  return part instanceof Blob ? part.size : part instanceof ArrayBuffer ? part.byteLength : undefined;
}

/** The bytes of all parts; nothing if one of them is no part. */
export function partsLength(parts: unknown[]): number | undefined {
  let length = 0;
  for (const part of parts) {
    const more = partLength(part);
    if (more === undefined) return undefined;
    length += more;
  }
  return length;
}
