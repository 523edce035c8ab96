import type { Engine } from "./engine.js";

/** The name of the reason with this number, which the engine gives; nothing for 0, which is none. */
export function reasonOf(engine: Engine, number: number): string | undefined {
  return number === 0 ? undefined : names(engine)[number];
}

/** What a reason means, in one sentence for people. */
export function explanation(engine: Engine, reason: string): string {
  const number = names(engine).indexOf(reason);
  return (number > 0 ? engine.reason(number, true) : undefined) ?? reason;
}

/** What the engine encoded. One byte is the number of the reason why it could not, whose name is thrown. */
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
