import type { Place } from "./directory-row.js";
import { isPacked, numberAt } from "./pack.js";

/** Where each entry is, by its name as text, and which entries share a pack. */
export class Places {
  #places = new Map<string, number>();
  /** The names of the entries in each pack. */
  #packs = new Map<number, Set<string>>();

  get size(): number {
    return this.#places.size;
  }

  /** Where an entry is; nothing if it is nowhere. */
  of(text: string): number | undefined {
    return this.#places.get(text);
  }

  /** The names of all entries. Which was moved last comes last. */
  texts(): string[] {
    return [...this.#places.keys()];
  }

  all(): Place[] {
    return [...this.#places];
  }

  /** Of these entries those that are somewhere, and where. */
  known(texts: Iterable<string>): Place[] {
    const known: Place[] = [];
    for (const text of texts) {
      const place = this.#places.get(text);
      if (place !== undefined) known.push([text, place]);
    }
    return known;
  }

  /** The other entries of the packs that are at these places. */
  neighbours(places: readonly Place[]): Place[] {
    const going = new Set(places.map(([, place]) => place));
    const numbers = new Set([...going].map(numberAt));
    const members = [...numbers].flatMap((number) => [...(this.#packs.get(number) ?? [])]);
    // By place: of a name that was replaced twice, one may go and the other stay.
    return this.known(members).filter(([, place]) => !going.has(place));
  }

  /** An entry is somewhere else, or nowhere if `place` is 0. */
  move(text: string, place: number): void {
    const older = this.#places.get(text);
    this.#places.delete(text);
    if (older !== undefined && isPacked(older)) {
      const members = this.#packs.get(numberAt(older));
      members?.delete(text);
      if (members?.size === 0) this.#packs.delete(numberAt(older));
    }
    if (place === 0) return;
    this.#places.set(text, place);
    if (!isPacked(place)) return;
    const members = this.#packs.get(numberAt(place));
    if (members === undefined) this.#packs.set(numberAt(place), new Set([text]));
    else members.add(text);
  }

  clear(): void {
    this.#places.clear();
    this.#packs.clear();
  }
}
