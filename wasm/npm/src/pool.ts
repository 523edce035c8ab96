/**
 * Memory for one copy of a value that is about to be stored. Allocating fresh memory takes several times as
 * long as copying, so the memory is kept for a while and reused.
 */

/** The largest value that is copied, and so the size limit of the pool, in bytes. */
const POOLED = 32 * 1024 * 1024;

/** How long it is kept after its last use, in milliseconds: until the next file of a download arrives. */
const KEPT_MS = 5000;

/** A copy of bytes. */
export interface Copy {
  bytes: Uint8Array<ArrayBuffer>;
  /** Releases the copy; its owner calls this once. The memory is then reused. */
  free(): void;
}

/** Copies `bytes`. Returns `undefined` if they are too many, or while another copy is in use. */
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

/** Frees the memory at once if the browser can; otherwise the garbage collector does. */
function drop(): void {
  (memory as { transfer?: (length: number) => unknown } | undefined)?.transfer?.(0);
  memory = undefined;
}
