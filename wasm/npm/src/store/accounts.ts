/** The limits of a cache. An omitted limit is no limit. */
export interface Limits {
  /** The most bytes of all entries, with their heads. */
  maxBytes?: number | undefined;
  /** The most entries. */
  maxEntries?: number | undefined;
}

/**
 * One change: `[]` removes everything; `[id]` is an entry that is gone; `[id, usedMs]` is a use; and `[id, usedMs,
 * size, pieces]` is an entry that was stored, with the length of the whole entry, and the id of its pieces if it has
 * any. Times are milliseconds since 1970 UTC, sizes are bytes.
 */
export type Change =
  | readonly []
  | readonly [id: string]
  | readonly [id: string, usedMs: number]
  | readonly [id: string, usedMs: number, size: number, pieces?: string | undefined];

/** What is known of an entry without reading it. */
export interface Account {
  usedMs: number;
  size: number;
  pieces: string | undefined;
}

/** The sizes of all entries and the order of their use: what the rows of the log add up to. */
export class Accounts {
  /** By id, the least recently used first. The order is that of the changes: a clock may be set back. */
  readonly entries = new Map<string, Account>();
  /** The size of all entries. */
  bytes = 0;
  /** The ids of pieces whose entries are gone. */
  readonly loose = new Set<string>();

  /** Applies changes in their order. A use of an unknown entry changes nothing. */
  apply(changes: readonly Change[]): void {
    for (const [id, usedMs, size, pieces] of changes) {
      if (id === undefined) {
        this.clear();
        continue;
      }
      const known = this.entries.get(id);
      this.entries.delete(id);
      if (size !== undefined || usedMs === undefined) {
        this.bytes -= known?.size ?? 0;
        if (known?.pieces !== undefined && known.pieces !== pieces) this.loose.add(known.pieces);
      } else if (known !== undefined) {
        this.entries.set(id, { ...known, usedMs });
      }
      if (usedMs === undefined || size === undefined) continue;
      this.bytes += size;
      this.entries.set(id, { usedMs, size, pieces });
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
    const stored = ([id, { usedMs, size, pieces }]: [string, Account]): Change => changeOf(id, usedMs, size, pieces);
    return [[], ...Array.from(this.entries, stored)];
  }
}

/** Returns the change that an entry was stored. */
export function changeOf(id: string, usedMs: number, size: number, pieces: string | undefined): Change {
  return pieces === undefined ? [id, usedMs, size] : [id, usedMs, size, pieces];
}

/** Whether an entry of this size fits within the limits. */
export function admits({ maxBytes = Infinity, maxEntries = Infinity }: Limits, size: number): boolean {
  return maxBytes > 0 && maxEntries >= 1 && size <= maxBytes;
}

/** Whether a row of the log is a list of changes. */
export function isRow(row: unknown): row is Change[] {
  return Array.isArray(row) && row.length > 0 && row.every(isChange);
}

/** Whether a row replaces all rows before it. */
export function isSnapshot(row: readonly Change[]): boolean {
  return row[0]?.length === 0;
}

function isChange(change: unknown): boolean {
  if (!Array.isArray(change)) return false;
  const [id, usedMs, size, pieces] = change as unknown[];
  if (change.length === 0) return true;
  if (typeof id !== "string" || (change.length > 1 && typeof usedMs !== "number")) return false;
  if (change.length < 3) return true;
  const isSize = typeof size === "number" && size >= 0;
  return isSize && (pieces === undefined || typeof pieces === "string");
}
