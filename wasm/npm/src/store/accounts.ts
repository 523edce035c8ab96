import { isLarge, type LargeHead } from "./record.js";

/** The limits of a cache. An omitted limit is no limit. */
export interface Limits {
  /** The most bytes of all entries, with their heads. */
  maxBytes?: number | undefined;
  /** The most entries. */
  maxEntries?: number | undefined;
}

/**
 * One change: `[]` removes everything; `[id]` is an entry that is gone; `[id, usedMs]` is a use; `[id, usedMs, size]`
 * is an entry that was stored, with the length of the whole entry, and the head of a large one. Times are milliseconds
 * since 1970 UTC, sizes are bytes.
 */
export type Change =
  | readonly []
  | readonly [id: string]
  | readonly [id: string, usedMs: number]
  | readonly [id: string, usedMs: number, size: number, large?: LargeHead | undefined];

/** What is known of an entry without reading it. */
export interface Account {
  usedMs: number;
  size: number;
  /** The head of a large entry, from which it is listed; `undefined` for a small one. */
  large: LargeHead | undefined;
}

/** The sizes of all entries and the order of their use: the sum of the log's rows. */
export class Accounts {
  /** By id, the least recently used first. The order is that of the changes: a clock may be set back. */
  readonly entries = new Map<string, Account>();
  /** The size of all entries. */
  bytes = 0;
  /** The ids of pieces whose entries are gone. */
  readonly loose = new Set<string>();

  /** Applies changes in their order. A use of an unknown entry changes nothing. */
  apply(changes: readonly Change[]): void {
    for (const [id, usedMs, size, large] of changes) {
      if (id === undefined) {
        this.clear();
        continue;
      }
      const known = this.entries.get(id);
      this.entries.delete(id);
      if (size !== undefined || usedMs === undefined) {
        this.bytes -= known?.size ?? 0;
        const pieces = known?.large?.p?.id;
        if (pieces !== undefined && pieces !== large?.p?.id) this.loose.add(pieces);
      } else if (known !== undefined) {
        this.entries.set(id, { ...known, usedMs });
      }
      if (usedMs === undefined || size === undefined) continue;
      this.bytes += size;
      this.entries.set(id, { usedMs, size, large });
    }
  }

  clear(): void {
    this.entries.clear();
    this.loose.clear();
    this.bytes = 0;
  }

  /** Whether the entries exceed the limits. */
  exceed({ maxBytes = Infinity, maxEntries = Infinity }: Limits): boolean {
    return this.bytes > maxBytes || this.entries.size > maxEntries;
  }

  /** Returns the changes that lead to these accounts, whatever was before. */
  snapshot(): Change[] {
    return [[], ...Array.from(this.entries, ([id, { usedMs, size, large }]) => [id, usedMs, size, large] as const)];
  }
}

/** Whether there is no limit, so that nothing is evicted. */
export const isUnlimited = ({ maxBytes, maxEntries }: Limits): boolean => maxBytes === undefined && maxEntries === undefined;

/** Whether an entry of this size fits within the limits. */
export function admits({ maxBytes = Infinity, maxEntries = Infinity }: Limits, size: number): boolean {
  return maxBytes > 0 && maxEntries >= 1 && size <= maxBytes;
}

/** Whether a row of the log is a list of changes. */
export function isRow(row: unknown): row is Change[] {
  // `every` would skip the holes of an array.
  return Array.isArray(row) && row.length > 0 && row.findIndex((change) => !isChange(change)) === -1;
}

/** Whether a row replaces all rows before it. */
export function isSnapshot(row: readonly Change[]): boolean {
  return row[0]?.length === 0;
}

function isChange(change: unknown): boolean {
  if (!Array.isArray(change)) return false;
  const [id, usedMs, size, large] = change as unknown[];
  if (change.length === 0) return true;
  if (typeof id !== "string" || (change.length > 1 && typeof usedMs !== "number")) return false;
  if (change.length < 3) return true;
  // One other size would spoil the sum of all.
  return Number.isSafeInteger(size) && (size as number) >= 0 && (large === undefined || isLarge(large));
}
