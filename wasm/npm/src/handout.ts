import type { Engine } from "./engine.js";
import { invalid } from "./errors.js";
import { decodeMetadata } from "./metadata.js";
import type { As, Formats } from "./types.js";
import type { Part, Piece } from "./store/store.js";
import type { LargePayload, SmallPayload } from "./values.js";
import {
  bytesOfBlob,
  damageOf,
  type Large,
  slices,
  type Verified,
  verifiedBytes,
  verifiedStream,
} from "./verify.js";

/** A verified value and its metadata. */
export type Content = (SmallPayload | KeptPayload) & { metadata: Uint8Array };

/** A large payload, of which parts may still be in the database. */
type KeptPayload = Omit<LargePayload, "parts"> & { parts: (Part | Piece)[] };

/** Fails if `as` is none of the formats. */
export function checkedAs(as: As): As {
  if (["bytes", "blob", "text", "json", "response"].includes(as)) return as;
  throw invalid(`"${as}" is not a format; use "bytes", "blob", "text", "json" or "response".`);
}

/** Returns a value that needs no verification: a small one as it is if it is `fresh`, otherwise a copy. */
export async function handOut(
  engine: Engine,
  content: Content,
  as: As,
  fresh: boolean,
): Promise<Formats[As]> {
  if (as === "response" || as === "blob") {
    const blobs = content.bytes ? [content.bytes] : await Promise.all(content.parts.map(loaded));
    if (as === "response" && blobs.length === 1) return responseOf(engine, content, blobs[0] as BodyInit);
    const { headers } = decodeMetadata(content.metadata);
    const blob = new Blob(blobs, { type: headers.get("content-type") ?? "" });
    return as === "blob" ? blob : responseOf(engine, content, blob);
  }
  if (content.bytes) return formatted(fresh ? content.bytes : content.bytes.slice(), as);
  return formatted(await bytesOf(content), as);
}

/** Verifies a large value and hands it out. A `lazy` response is verified while its body is read. */
export async function handOutVerified(
  engine: Engine,
  found: Large,
  as: As,
  lazy: boolean,
  onDamage: (reason: string) => Promise<void>,
): Promise<Verified<Formats[As]>> {
  if (as === "response" && lazy) {
    return { value: responseOf(engine, found, verifiedStream(engine, found, onDamage)) };
  }
  if (as === "response" || as === "blob") {
    const damage = await damageOf(engine, found);
    return damage === undefined ? { value: await handOut(engine, found, as, true) } : { damage };
  }
  const result = await verifiedBytes(engine, found);
  return result.damage === undefined ? { value: formatted(result.value, as) } : result;
}

function loaded(part: Part | Piece): Part | Promise<Part> {
  return "read" in part ? part.read() : part;
}

function formatted(bytes: Uint8Array<ArrayBuffer>, as: As): Formats[As] {
  if (as === "bytes") return bytes;
  const text = decoder.decode(bytes);
  if (as === "text") return text;
  try {
    return JSON.parse(text.replace(/^\uFEFF/, "")) as unknown;
  } catch (cause) {
    throw invalid(`The stored value is not JSON: ${String(cause)}. Use another format than "json".`);
  }
}

async function bytesOf(content: KeptPayload): Promise<Uint8Array<ArrayBuffer>> {
  const only = content.parts.length === 1 ? content.parts[0] : undefined;
  if (only instanceof Blob) return bytesOfBlob(only);
  const whole = new Uint8Array(content.size);
  let at = 0;
  for await (const slice of slices(content.parts)) {
    whole.set(slice, at);
    at += slice.length;
  }
  return whole;
}

function responseOf(engine: Engine, found: { metadata: Uint8Array; size: number }, body: BodyInit): Response {
  const { headers } = decodeMetadata(found.metadata);
  headers.set("content-length", String(found.size));
  const response = new Response(body, { headers });
  // A Blob would bring its own type along.
  if (!headers.has("content-type")) response.headers.delete("content-type");
  return response;
}

/** Keeps byte order marks, which are a part of the value. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
