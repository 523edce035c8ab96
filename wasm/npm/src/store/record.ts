import { verify_head } from "../../engine/warmstart_wasm.js";
import { reasonOf, verifyEnvelope } from "../engine.js";
import { keyOf } from "../key.js";

/** A part of the payload of a large value, of at most {@link PART} bytes. */
export type Part = Blob | ArrayBuffer;

/** The most bytes of a part: Chromium cannot store one Blob of 400 MiB or more. */
export const PART = 128 << 20;

/** The longest head in a row of the log, in bytes: all tabs read the rows, and keep the heads. */
const MOST_HEAD = 4096;

/**
 * The largest payload of a small value, in bytes. Chromium stores records of more than 64 KiB in files of their
 * own, which takes one more step for each read.
 */
export const SMALL = 48 * 1024;

/** A part that stays in the database until it is asked for. */
export interface Piece {
  /** The length in bytes. */
  size: number;
  /** Reads it. Rejects if it is gone. */
  read(): Promise<Part>;
}

/** The pieces of a payload, each in a record of its own. */
export interface Pieces {
  /** Unique to the value. */
  id: string;
  /** The length of each piece, in bytes. */
  lengths: number[];
}

/** A large record without its payload: head `h`, its checksum `c`, and the pieces `p`, if there are any. */
export interface LargeHead {
  h: Uint8Array<ArrayBuffer>;
  c: number;
  p?: Pieces | undefined;
}

/** The record of a large value. The payload is in `b`, or in the pieces `p`. */
export interface LargeRecord extends LargeHead {
  b: Part[];
}

/** A record: the envelope of a small value, or a large one. */
export type Stored = Uint8Array<ArrayBuffer> | LargeRecord;

/**
 * A value that was found: `bytes` of a small one, which is verified, or `parts` of a large one, of which the head
 * is verified.
 */
export type Found = { head: Head } & (
  | { bytes: Uint8Array<ArrayBuffer>; parts?: undefined }
  | { bytes?: undefined; parts: (Part | Piece)[] }
);

/** The beginning of an entry: header, key and metadata. docs/format.md has its layout. */
export class Head {
  readonly #bytes: Uint8Array<ArrayBuffer>;

  /** Reads the head of an envelope, which may be longer. */
  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#bytes = bytes;
  }

  /** The bytes before the payload, with the zeros that align it. */
  get padded(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.length);
  }

  /** The encoded metadata. */
  get metadata(): Uint8Array {
    return this.#bytes.subarray(this.#keyEnd, this.#metadataEnd);
  }

  /** The length with the zeros, in bytes. */
  get length(): number {
    return Math.ceil(this.#metadataEnd / ALIGN) * ALIGN;
  }

  /** The length of the payload, in bytes. */
  get size(): number {
    return this.#long(AT.payloadLength);
  }

  /** The time of creation, in milliseconds since 1970 UTC. */
  get createdMs(): number {
    return this.#long(AT.created);
  }

  /** The time that the build took, in milliseconds. */
  get buildMs(): number {
    return this.#long(AT.buildTime) / 1e6;
  }

  /** Whether the entry has the key with this id. */
  isOf(id: string): boolean {
    const length = this.#int(AT.keyLength);
    let at = 0;
    // Most ids are ASCII, of which each unit is a byte.
    while (at < length && this.#bytes[HEADER + at]! < 0x80 && this.#bytes[HEADER + at] === id.charCodeAt(at)) at += 1;
    if (at === length && at === id.length) return true;
    const key = keyOf(id);
    return key.length === length && key.every((byte, nth) => byte === this.#bytes[HEADER + nth]);
  }

  /** Reads a number of eight bytes. */
  #long(at: number): number {
    return this.#int(at) + this.#int(at + 4) * 2 ** 32;
  }

  /** Reads a number of four bytes, without a `DataView`, because every look-up would create one. */
  #int(at: number): number {
    const bytes = this.#bytes;
    return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
  }

  get #keyEnd(): number {
    return HEADER + this.#int(AT.keyLength);
  }

  get #metadataEnd(): number {
    return this.#keyEnd + this.#int(AT.metadataLength);
  }
}

/** Reads the record of a key. Verifies a small value, or the head of a large one. Returns the reason of a miss. */
export function opened(record: unknown, id: string): Found | string {
  if (record === undefined) return "absent";
  if (record instanceof Uint8Array) {
    const reason = verifyEnvelope(record);
    if (reason !== undefined) return reason;
    const head = new Head(record as Uint8Array<ArrayBuffer>);
    if (!head.isOf(id)) return "key_mismatch";
    return { head, bytes: (record as Uint8Array<ArrayBuffer>).slice(head.length) };
  }
  const size = sizeOf(record);
  if (size === undefined) return "foreign";
  const found = openedHead(record as LargeRecord, size, id);
  return typeof found === "string" ? found : { ...found, parts: (record as LargeRecord).b };
}

/** Verifies the head of a large value with a payload of `size` bytes. Returns the reason of a miss. */
export function openedHead({ h, c }: LargeHead, size: number, id: string): { head: Head } | string {
  const reason = reasonOf(verify_head(h, c, size));
  if (reason !== undefined) return reason;
  const head = new Head(h);
  return head.isOf(id) ? { head } : "key_mismatch";
}

/** Whether the reason is damage, so that the entry may be removed. One that misses for another reason may be intact. */
export function isDamage(reason: string): boolean {
  return DAMAGE.has(reason);
}

/** Returns the length of a whole entry in bytes; of a malformed record, what is known of it. */
export function storedSize(record: unknown): number {
  if (record instanceof Uint8Array) return record.length;
  return ((record as LargeRecord | undefined)?.h?.length ?? 0) + (sizeOf(record) ?? 0);
}

/** Returns the length of a part in bytes; `undefined` if it is none. */
export function partLength(part: unknown): number | undefined {
  return part instanceof Blob ? part.size : part instanceof ArrayBuffer ? part.byteLength : undefined;
}

/** Returns a large record without its payload, and without a long head; `undefined` for any other record. */
export function largeOf(record: unknown): LargeHead | undefined {
  if (!isLarge(record)) return undefined;
  return { h: record.h.slice(0, record.h.length > MOST_HEAD ? 0 : undefined), c: record.c, p: record.p };
}

/** Tells whether this has the properties of a large record, apart from its payload. */
export function isLarge(record: unknown): record is LargeHead {
  const { h, c, p } = (record ?? {}) as Partial<LargeHead>;
  const isWhole = p === undefined || (typeof p?.id === "string" && Array.isArray(p.lengths));
  return isWhole && h instanceof Uint8Array && typeof c === "number";
}

/** Returns the length of the payload of a large record in bytes; `undefined` if it is malformed. */
function sizeOf(record: unknown): number | undefined {
  if (!isLarge(record) || !Array.isArray((record as LargeRecord).b)) return undefined;
  const { b, p } = record as LargeRecord;
  let size = 0;
  // Methods of arrays would skip holes.
  for (const part of p === undefined ? b : p.lengths) {
    const length: unknown = p === undefined ? partLength(part) : part;
    if (!Number.isSafeInteger(length) || (length as number) < 0) return undefined;
    size += length as number;
  }
  return size;
}

/** The length of the header, behind which the key begins. */
const HEADER = 64;
/** The offsets of the header's numbers. */
const AT = { keyLength: 20, metadataLength: 24, payloadLength: 32, created: 40, buildTime: 48 };
/** The payload begins at a multiple of this. */
const ALIGN = 128;
/** The reasons for which the core's `MissReason::is_damage` returns true. */
const DAMAGE = new Set(["truncated", "foreign", "malformed", "checksum_mismatch", "key_mismatch"]);
