// A model of the valid results of concurrent puts and removals. Suites use it in pages, cases in Node.

/** The keys that are put and removed. */
export const KEYS = Array.from({ length: 24 }, (_, at) => `key ${at}`);

/** Numbers below a limit, the same ones for the same seed. */
export function dice(seed) {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/** The changes of every key with their times: the clock counts the starts and ends of changes. */
export class Model {
  #clock = 0;
  #changes = new Map(KEYS.map((key) => [key, [{ key, number: null, began: 0, ended: 0, did: true }]]));

  now() {
    return (this.#clock += 1);
  }

  /** Something that changes these keys begins. The number of a removal is `null`. */
  begin(keys, number) {
    const changes = keys.map((key) => ({ key, number, began: this.now(), ended: Infinity, did: false }));
    for (const change of changes) this.#changes.get(change.key).push(change);
    return changes;
  }

  end(changes, did) {
    const now = this.now();
    changes.forEach((change, at) => Object.assign(change, { ended: now, did: did[at] }));
  }

  /** Whether this may be found by a look-up that began and ended so. */
  allows(key, number, began, ended) {
    const changes = this.#changes.get(key);
    const isOver = ({ ended: before }) =>
      changes.some((later) => later.did && later.began > before && later.ended < began);
    return changes.some((change) => change.number === number && change.began < ended && !isOver(change));
  }
}

/** A value that tells its key and its number. Some are too large for packs. */
export function valueOf(key, number) {
  const size = number % 11 === 0 ? 60_000 : number % 5 === 0 ? 20_000 : 300;
  return `${key}:${number}:`.padEnd(size, String(number % 10));
}
