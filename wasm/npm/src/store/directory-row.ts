/** Rows of the directory: see docs/format-browser.md. */

/** A name as text, and where its entry is, see pack.ts; 0 if it is gone. */
export type Place = [text: string, place: number];

/** What a row says of a name. With `from`, the entry was only moved from there, and somebody may have replaced it before. */
export type Change = [text: string, place: number, from?: number];

/** Whether a row adds to the ones before it, or says everything anew. */
export type Kind = "more" | "anew";

/** What a row says. */
export interface Row {
  kind: Kind;
  changes: readonly Change[];
}

const KINDS: Kind[] = ["more", "anew"];
const HEADER = 8;
const NAME = 32;
const CHANGE = NAME + 16;

export function encodeRow(kind: Kind, changes: readonly Change[]): Uint8Array<ArrayBuffer> {
  const row = new Uint8Array(HEADER + CHANGE * changes.length);
  const view = new DataView(row.buffer);
  row[0] = KINDS.indexOf(kind);
  let at = HEADER;
  for (const [text, place, from = 0] of changes) {
    writeText(row, at, text);
    view.setFloat64(at + NAME, place, true);
    view.setFloat64(at + NAME + 8, from, true);
    at += CHANGE;
  }
  return row;
}

/** What a row says; nothing if it is none. */
export function decodeRow(row: unknown): Row | undefined {
  if (!(row instanceof Uint8Array) || row.length < HEADER || (row.length - HEADER) % CHANGE !== 0) return undefined;
  const kind = KINDS[row[0]!];
  if (kind === undefined || row.subarray(1, HEADER).some((byte) => byte !== 0)) return undefined;
  const view = new DataView(row.buffer, row.byteOffset, row.length);
  const changes: Change[] = [];
  for (let at = HEADER; at < row.length; at += CHANGE) {
    const [place, from] = [view.getFloat64(at + NAME, true), view.getFloat64(at + NAME + 8, true)];
    if (!isPlace(place) || !isPlace(from)) return undefined;
    const text = textOf(row.subarray(at, at + NAME));
    changes.push(from === 0 ? [text, place] : [text, place, from]);
  }
  return { kind, changes };
}

function isPlace(place: number): boolean {
  return place >= 0 && place <= Number.MAX_SAFE_INTEGER;
}

/** A name as text of 32 characters, one for each byte: maps find it faster than hexadecimal digits, and it sorts alike. */
export function textOf(name: Uint8Array): string {
  return String.fromCharCode.apply(null, name as unknown as number[]);
}

/** The name again. */
export function bytesOfText(text: string): Uint8Array<ArrayBuffer> {
  const name = new Uint8Array(NAME);
  writeText(name, 0, text);
  return name;
}

export function writeText(bytes: Uint8Array, from: number, text: string): void {
  for (let at = 0; at < NAME; at += 1) bytes[from + at] = text.charCodeAt(at);
}
