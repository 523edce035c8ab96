import type { Cache } from "./cache.js";

/** The server's identifier of a version of a file, with which the rest of the file can be requested later. */
export interface Validator {
  /** A strong entity tag. */
  readonly etag: string | undefined;
  /** A date of last modification. */
  readonly modified: string | undefined;
}

/** The known properties of a partial file. */
export interface PartialFile extends Validator {
  /** The length of the whole file in bytes, where it is known. */
  readonly total: number | undefined;
  /** The `content-length` of the whole file; where headers are hidden, it may be that of an encoded body. */
  readonly told: number | undefined;
  /** Its media type. */
  readonly type: string | undefined;
}

/**
 * The part of a file that has arrived, in pieces, which the cache keeps as far as it has room.
 *
 * Each piece is an entry, and so is the list of pieces, which is written after the pieces that it names. The key
 * of a piece contains its offset and the version of the file, so that two tabs that download the same file write
 * the same bytes under the same key, in any order.
 */
export class Parts {
  readonly #cache: Cache;
  readonly #url: string;
  #pieces: Blob[] = [];
  #length = 0;
  #about: PartialFile | undefined;
  #kept: string[] = [];
  /** Whether the cache may have a list of pieces. */
  #listed = false;
  #saving: Promise<void> = Promise.resolve();

  private constructor(cache: Cache, url: string) {
    this.#cache = cache;
    this.#url = url;
  }

  /** Loads the kept pieces of `url`, up to the first lost or damaged one. */
  static async load(cache: Cache, url: string): Promise<Parts> {
    const parts = new Parts(cache, url);
    if (!(await cache.has(parts.#listKey()))) return parts;
    parts.#listed = true;
    const list = decodeList(await cache.get(parts.#listKey(), "text"));
    if (list === undefined) return parts;
    parts.#kept = list.ends.map((end, index) => parts.#pieceKey(list, list.ends[index - 1] ?? 0, end));
    const pieces = await cache.getMany(parts.#kept, "blob");
    for (const [index, piece] of pieces.entries()) {
      if (piece?.size !== (list.ends[index] as number) - parts.#length) break;
      // The file outlives the entries that its pieces came from, and not every browser lets such a Blob do
      // so.
      parts.#pieces.push(new Blob([await piece.arrayBuffer()]));
      parts.#length += piece.size;
    }
    if (parts.#length > 0) parts.#about = list;
    return parts;
  }

  /** How many bytes there are, from the start of the file. */
  get length(): number {
    return this.#length;
  }

  /** The properties of the file, if a part of it has arrived. */
  get about(): PartialFile | undefined {
    return this.#about;
  }

  /** Everything that has arrived. */
  blob(type: string): Blob {
    return new Blob(this.#pieces, { type });
  }

  /** Begins a new file, and removes the pieces of another version. */
  begin(about: PartialFile): void {
    this.restart();
    this.#about = about;
  }

  /** Forgets everything, here and in the cache. */
  restart(): void {
    this.#pieces = [];
    this.#length = 0;
    this.#about = undefined;
    this.#saving = this.#saving.then(() => this.#remove());
  }

  /** Adds what arrived next. With `keep`, it is written to the cache, while more arrives. */
  add(piece: Blob, keep: boolean): void {
    this.#pieces.push(piece);
    this.#length += piece.size;
    if (keep) this.keep();
  }

  /** Writes all pieces that are not in the cache yet, if the server supports resuming. */
  keep(): void {
    const about = this.#about;
    if (about === undefined || !isResumable(about)) return;
    const pieces = [...this.#pieces];
    this.#saving = this.#saving.then(() => this.#write(about, pieces));
  }

  /** Waits until all pieces are written. */
  saved(): Promise<void> {
    return this.#saving;
  }

  /** Removes the pieces, when the file is complete or useless. */
  async drop(): Promise<void> {
    this.#saving = this.#saving.then(() => this.#remove());
    await this.#saving;
  }

  async #write(about: PartialFile, pieces: readonly Blob[]): Promise<void> {
    const ends: number[] = [];
    const label = `part of ${this.#url}`;
    this.#listed = true;
    let end = 0;
    for (const [index, piece] of pieces.entries()) {
      const start = end;
      end += piece.size;
      const key = this.#pieceKey(about, start, end);
      if (this.#kept[index] !== key) {
        await this.#cache.put(key, piece, { label });
        this.#kept[index] = key;
      }
      ends.push(end);
    }
    await this.#cache.put(this.#listKey(), JSON.stringify({ ...about, ends }), {
      label,
      type: "application/json",
    });
  }

  async #remove(): Promise<void> {
    if (!this.#listed) return;
    this.#listed = false;
    const keys = [this.#listKey(), ...this.#kept];
    this.#kept = [];
    await Promise.all(keys.map((key) => this.#cache.delete(key)));
  }

  #listKey(): string {
    return `warmstart.parts ${this.#url}`;
  }

  #pieceKey(about: Validator, start: number, end: number): string {
    return `warmstart.part ${start}-${end} ${about.etag ?? about.modified ?? ""} ${this.#url}`;
  }
}

/** Whether a later request can verify that it gets the rest of the same file. */
export function isResumable(about: Validator): boolean {
  return about.etag !== undefined || about.modified !== undefined;
}

function decodeList(text: string | undefined): (PartialFile & { ends: number[] }) | undefined {
  try {
    const list = JSON.parse(text ?? "null") as PartialFile & { ends: unknown };
    if (!Array.isArray(list.ends) || !list.ends.every((end) => Number.isSafeInteger(end))) return undefined;
    const { etag, modified, total, told, type, ends } = list;
    return { etag, modified, total, told, type, ends: ends as number[] };
  } catch {
    return undefined;
  }
}
