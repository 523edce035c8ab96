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

/** The header of a kept piece that says of which file it is, and where it begins. */
const ABOUT = "x-warmstart-part";

/**
 * The part of a file that has arrived, in pieces, which the cache keeps as far as it has room.
 *
 * Each piece is an entry that names its version of the file and the byte where it begins. So it can be checked whether
 * pieces of several tabs that download the same file fit together.
 */
export class Parts {
  readonly #cache: Cache;
  readonly #url: string;
  /** The number of bytes that have arrived, from the start of the file. */
  length = 0;
  /** The properties of the file, if a part of it has arrived. */
  about: PartialFile | undefined;
  #pieces: Blob[] = [];
  /** The number of pieces that the cache has. */
  #kept = 0;
  #saving: Promise<void> = Promise.resolve();

  private constructor(cache: Cache, url: string) {
    this.#cache = cache;
    this.#url = url;
  }

  /** Loads the kept pieces of `url`, up to the first lost or damaged one, and removes those behind it. */
  static async load(cache: Cache, url: string): Promise<Parts> {
    const parts = new Parts(cache, url);
    let isWhole = true;
    for (let index = 0; await cache.has(parts.#key(index)); index += 1) {
      isWhole &&= await parts.#load(index).catch(() => false);
      if (!isWhole) await cache.delete(parts.#key(index));
    }
    return parts;
  }

  /** Adds a kept piece. Resolves with whether it follows the earlier ones; rejects if it is damaged. */
  async #load(index: number): Promise<boolean> {
    const piece = await this.#cache.get(this.#key(index), "response");
    const { start, ...about } = JSON.parse(piece?.headers.get(ABOUT) ?? "{}") as PartialFile & { start?: number };
    if (!piece || start !== this.length || about.version !== (this.about ?? about).version) return false;
    // The file outlives the entries that its pieces came from, and not every browser lets such a Blob do so.
    this.add(new Blob([await piece.arrayBuffer()]));
    this.about = about;
    this.#kept = index + 1;
    return true;
  }

  /** Everything that has arrived. */
  blob(type: string): Blob {
    return new Blob(this.#pieces, { type });
  }

  /** Begins a file, or another one. Removes everything else, here and in the cache, and waits for that. */
  begin(about?: PartialFile): Promise<void> {
    this.#pieces = [];
    this.length = 0;
    this.about = about;
    return (this.#saving = this.#saving.then(() => this.#remove()));
  }

  /** Adds the next bytes of the file. */
  add(piece: Blob): void {
    this.#pieces.push(piece);
    this.length += piece.size;
  }

  /** Writes all pieces that are not in the cache yet, if the server supports resuming, and waits for that. */
  keep(): Promise<void> {
    const [about, pieces] = [this.about, [...this.#pieces]];
    if (about?.version) this.#saving = this.#saving.then(() => this.#write(about, pieces));
    return this.#saving;
  }

  async #write(about: PartialFile, pieces: readonly Blob[]): Promise<void> {
    let start = 0;
    for (const [index, piece] of pieces.entries()) {
      const headers = { [ABOUT]: JSON.stringify({ ...about, start }) };
      start += piece.size;
      if (index < this.#kept) continue;
      await this.#cache.put(this.#key(index), piece, { label: `part of ${this.#url}`, headers });
      this.#kept = index + 1;
    }
  }

  async #remove(): Promise<void> {
    const keys = Array.from({ length: this.#kept }, (_, index) => this.#key(index));
    this.#kept = 0;
    await Promise.all(keys.map((key) => this.#cache.delete(key)));
  }

  #key(index: number): string {
    return `warmstart.part ${index} ${this.#url}`;
  }
}
