import type { Engine } from "./engine.js";

/** Returns the name of the engine's reason with this number; `undefined` for 0. */
export function reasonOf(engine: Engine, number: number): string | undefined {
  return number === 0 ? undefined : names(engine)[number];
}

/** Returns a sentence for people about a reason. */
export function explanation(engine: Engine, reason: string): string {
  const number = names(engine).indexOf(reason);
  return (number > 0 ? engine.reason(number, true) : undefined) ?? reason;
}

/** Returns the engine's encoded bytes. Throws the name of a reason if the engine returned its number. */
export function encoded(engine: Engine, bytes: Uint8Array): Uint8Array {
  if (bytes.length === 1) throw reasonOf(engine, bytes[0] as number) ?? "malformed";
  return bytes;
}

let known: string[] | undefined;

function names(engine: Engine): string[] {
  if (known) return known;
  known = [""];
  for (let name = engine.reason(1, false); name !== undefined; name = engine.reason(known.length, false)) {
    known.push(name);
  }
  return known;
}
