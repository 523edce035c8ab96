import type { Place } from "./directory-row.js";
import { isPacked, numberAt } from "./pack.js";

/** The places of entries, by their names as text, and the entries that share each pack. */
export class Places {
  #places = new Map<string, number>();
  /** The names of the entries in each pack. */
  #packs = new Map<number, Set<string>>();

  get size(): number {
    return this.#places.size;
  }

  /** Returns the place of an entry, or `undefined`. */
  of(text: string): number | undefined {
    return this.#places.get(text);
  }

  /** Returns the names of all entries; the one that was placed last comes last. */
  texts(): string[] {
    return [...this.#places.keys()];
  }

  all(): Place[] {
    return [...this.#places];
  }

  /** Returns those of these entries that have a place, with their places. */
  known(texts: Iterable<string>): Place[] {
    const known: Place[] = [];
    for (const text of texts) {
      const place = this.#places.get(text);
      if (place !== undefined) known.push([text, place]);
    }
    return known;
  }

  /** Returns the other entries of the packs at these places. */
  neighbours(places: readonly Place[]): Place[] {
    const going = new Set(places.map(([, place]) => place));
    const numbers = new Set([...going].map(numberAt));
    const members = [...numbers].flatMap((number) => [...(this.#packs.get(number) ?? [])]);
    // By place, because of two records of one name only one may go.
    return this.known(members).filter(([, place]) => !going.has(place));
  }

  /** Sets the place of an entry, or removes the entry if `place` is 0. */
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
