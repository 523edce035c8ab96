/** Counters since the store was opened. Times are in milliseconds, sizes in bytes of payload. */
export class Counters {
  hits = 0;
  misses: Record<string, number> = {};
  refusals: Record<string, number> = {};
  builds = 0;
  shared = 0;
  bytesRead = 0;
  bytesWritten = 0;
  evictions = 0;
  buildMs = 0;
  savedMs = 0;

  miss(reason: string): void {
    this.misses[reason] = (this.misses[reason] ?? 0) + 1;
  }

  refusal(reason: string): void {
    this.refusals[reason] = (this.refusals[reason] ?? 0) + 1;
  }
}

/** Counters, and what is held: entries and their bytes, with heads. */
export interface Statistics extends Omit<Counters, "miss" | "refusal"> {
  entries: number;
  bytes: number;
}
