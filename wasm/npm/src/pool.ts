/**
 * Memory for one copy of a value that is about to be stored. The system hands out fresh memory page by page,
 * which takes several times as long as copying does. So what was used once is kept for a while and used
 * again.
 */

/** The most bytes that are copied into it, and so the most that it ever holds. */
const POOLED = 32 * 1024 * 1024;

/** How long it is kept after its last use, in milliseconds: until the next file of a download is there. */
const KEPT_MS = 5000;

/** A copy of bytes. */
export interface Copy {
  bytes: Uint8Array<ArrayBuffer>;
  /** Whoever has the copy says once that it is done with it. Then the bytes become those of others. */
  free(): void;
}

/** Copies `bytes`. Gives nothing if they are too many, or while there is another copy. */
export function copied(bytes: Uint8Array): Copy | undefined {
  if (taken || bytes.length > POOLED) return undefined;
  if (!memory || memory.byteLength < bytes.length) {
    drop();
    memory = new ArrayBuffer(bytes.length);
  }
  const copy = new Uint8Array(memory, 0, bytes.length);
  copy.set(bytes);
  clearTimeout(timer);
  taken = true;
  return { bytes: copy, free };
}

let memory: ArrayBuffer | undefined;
let taken = false;
let timer: ReturnType<typeof setTimeout> | undefined;

function free(): void {
  taken = false;
  timer = setTimeout(drop, KEPT_MS);
}

/** Gives the memory back at once, where the browser can; else the garbage collector does. */
function drop(): void {
  (memory as { transfer?: (length: number) => unknown } | undefined)?.transfer?.(0);
  memory = undefined;
}
