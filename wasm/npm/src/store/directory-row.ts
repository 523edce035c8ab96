import { textOf, writeText } from "./name.js";

/** Rows of the directory: see docs/format-browser.md. */

/** A name as text, and where its entry is, see pack.ts; 0 if it is gone. */
export type Place = [text: string, place: number];

/** Whether a row adds to the rows before it, or replaces them. */
export type Kind = "delta" | "snapshot";

/** What a row says. */
export interface Row {
  kind: Kind;
  places: readonly Place[];
}

const KINDS: Kind[] = ["delta", "snapshot"];
const HEADER = 8;
const NAME = 32;
const PLACE = NAME + 8;

export function encodeRow(kind: Kind, places: readonly Place[]): Uint8Array<ArrayBuffer> {
  const row = new Uint8Array(HEADER + PLACE * places.length);
  const view = new DataView(row.buffer);
  row[0] = KINDS.indexOf(kind);
  let at = HEADER;
  for (const [text, place] of places) {
    writeText(row, at, text);
    view.setFloat64(at + NAME, place, true);
    at += PLACE;
  }
  return row;
}

/** What a row says; nothing if it is none. */
export function decodeRow(row: unknown): Row | undefined {
  if (!(row instanceof Uint8Array) || row.length < HEADER) return undefined;
  if ((row.length - HEADER) % PLACE !== 0) return undefined;
  const kind = KINDS[row[0]!];
  if (kind === undefined || row.subarray(1, HEADER).some((byte) => byte !== 0)) return undefined;
  const view = new DataView(row.buffer, row.byteOffset, row.length);
  const places: Place[] = [];
  for (let at = HEADER; at < row.length; at += PLACE) {
    const place = view.getFloat64(at + NAME, true);
    if (!(place >= 0 && place <= Number.MAX_SAFE_INTEGER)) return undefined;
    places.push([textOf(row.subarray(at, at + NAME)), place]);
  }
  return { kind, places };
}
