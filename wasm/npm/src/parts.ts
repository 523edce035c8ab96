import type { Cache } from "./cache.js";

/** The known properties of a partial file. */
export interface PartialFile {
  /**
   * The server's identifier of this version, with which the rest can be requested later: a strong entity tag, in its
   * quotes, or a date of last modification. Empty if there is none.
   */
  readonly version: string;
  /** The length of the whole file in bytes, where it is known. */
  readonly total?: number | undefined;
  /** The `content-length` of the whole file; where headers are hidden, it may be that of an encoded body. */
  readonly told?: number | undefined;
  /** Its media type, which may be empty. */
  readonly type: string;
}

/** A stored list of pieces: where each of them ends. */
interface Listed extends PartialFile {
  readonly ends: readonly number[];
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
    const list = await cache.get<Listed | null>(parts.#listKey(), "json").catch(() => undefined);
    if (typeof list?.version !== "string" || !Array.isArray(list.ends)) return parts;
    const { ends, ...about } = list;
    parts.#kept = ends.map((end, index) => parts.#pieceKey(about, ends[index - 1] ?? 0, end));
    for (const [index, piece] of (await cache.getMany(parts.#kept, "blob")).entries()) {
      if (piece?.size !== (ends[index] as number) - parts.#length) break;
      // The file outlives the entries that its pieces came from, and not every browser lets such a Blob do
      // so.
      parts.add(new Blob([await piece.arrayBuffer()]));
    }
    if (parts.#length > 0) parts.#about = about;
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

  /** Begins a file, or another one. Removes everything else, here and in the cache, and waits for that. */
  begin(about?: PartialFile): Promise<void> {
    this.#pieces = [];
    this.#length = 0;
    this.#about = about;
    return (this.#saving = this.#saving.then(() => this.#remove()));
  }

  /** Adds what arrived next. */
  add(piece: Blob): void {
    this.#pieces.push(piece);
    this.#length += piece.size;
  }

  /** Writes all pieces that are not in the cache yet, if the server supports resuming, and waits for that. */
  keep(): Promise<void> {
    const [about, pieces] = [this.#about, [...this.#pieces]];
    if (about?.version) this.#saving = this.#saving.then(() => this.#write(about, pieces));
    return this.#saving;
  }

  async #write(about: PartialFile, pieces: readonly Blob[]): Promise<void> {
    const ends: number[] = [];
    const label = `part of ${this.#url}`;
    this.#listed = true;
    for (const [index, piece] of pieces.entries()) {
      const start = ends.at(-1) ?? 0;
      const key = this.#pieceKey(about, start, start + piece.size);
      if (this.#kept[index] !== key) await this.#cache.put(key, piece, { label });
      this.#kept[index] = key;
      ends.push(start + piece.size);
    }
    const list: Listed = { ...about, ends };
    await this.#cache.put(this.#listKey(), JSON.stringify(list), { label, type: "application/json" });
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

  #pieceKey({ version }: PartialFile, start: number, end: number): string {
    return `warmstart.part ${start}-${end} ${version} ${this.#url}`;
  }
}
