/**
 * Reads values that Rust's postcard encoded: see docs/format.md. Throws on truncated or invalid bytes.
 */
export class Wire {
  #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A whole number: seven bits a byte, the lowest first. */
  number(): number {
    let [number, unit] = [0, 1];
    for (;;) {
      const byte = this.take(1)[0] as number;
      number += (byte & 127) * unit;
      if (byte < 128) break;
      unit *= 128;
    }
    if (!Number.isSafeInteger(number)) throw new RangeError("too large a number");
    return number;
  }

  flag(): boolean {
    const byte = this.take(1)[0] as number;
    if (byte > 1) throw new RangeError("neither false nor true");
    return byte === 1;
  }

  /** Bytes behind their length. */
  bytes(): Uint8Array {
    return this.take(this.number());
  }

  text(): string {
    return decoder.decode(this.bytes());
  }

  /** Reads this number of bytes. */
  take(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RangeError("the bytes end too early");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

/** Appends a number as {@link Wire.number} reads it. */
export function put(bytes: number[], number: number): void {
  for (let rest = number; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) {
      bytes.push(rest);
      return;
    }
    bytes.push((rest % 128) + 128);
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
