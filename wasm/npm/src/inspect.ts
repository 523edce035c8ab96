import * as engine from "../engine/warmstart_wasm.js";
import type { Core } from "./core.js";
import { explanation, texts } from "./engine.js";
import { bound } from "./errors.js";
import { idOf, Key, type KeyInput, keyOf, textOf } from "./key.js";
import { decodeMetadata } from "./metadata.js";
import type { Account } from "./store/accounts.js";
import { type Found, type Head, isDamage, openedHead } from "./store/record.js";
import type { EntryInfo, Explanation, Stats } from "./types.js";

/** Lists all entries in the order of eviction. */
export async function entries(core: Core): Promise<EntryInfo[]> {
  await core.order.drained();
  const infos: EntryInfo[] = [];
  for await (const { id, head, usedMs, storedSize } of listed(core)) {
    const { label, headers, recipe } = decodeMetadata(head.metadata);
    infos.push({
      key: keyOf(id),
      text: textOf(id),
      label,
      type: headers.get("content-type") ?? undefined,
      headers,
      size: head.size,
      storedSize,
      created: new Date(head.createdMs),
      lastUsed: new Date(usedMs),
      buildMs: head.buildMs,
      recipe,
    });
  }
  return infos;
}

/** Returns the counters of the cache, and its backend. */
export async function stats({ counters, store }: Core): Promise<Stats> {
  const [stored, beside] = await store.accounts();
  return {
    backend: store.backend,
    reason: store.reason,
    ...structuredClone(counters),
    entries: stored.entries.size + beside.entries.size,
    bytes: stored.bytes + beside.bytes,
  };
}

/** Explains whether a key would hit or miss. Of equally near entries, the most recently used is the nearest. */
export async function explain(core: Core, input: KeyInput): Promise<Explanation> {
  const id = idOf(input);
  const pending = core.order.pending(id);
  if (pending) await pending;
  const found = await core.peek(id);
  const reason = typeof found === "string" ? found : undefined;
  const recipe = input instanceof Key ? input.recipe : undefined;
  let nearest: { distance: number; id: string; metadata: Uint8Array } | undefined;
  for await (const { id, head } of recipe ? listed(core) : []) {
    const { metadata } = head;
    const distance = engine.distance(recipe as Uint8Array, metadata);
    if (distance !== undefined && distance <= (nearest?.distance ?? Infinity)) nearest = { distance, id, metadata };
  }
  return {
    hit: reason === undefined,
    reason,
    text: reason === undefined ? "the value is stored" : explanation(reason),
    nearest: nearest && {
      key: keyOf(nearest.id),
      label: decodeMetadata(nearest.metadata).label,
      changes: changes(texts(engine.changes(recipe as Uint8Array, nearest.metadata))),
    },
  };
}

/** Verifies all entries. Values are read one after the other, so that one large value at a time takes memory. */
export async function verify(core: Core): Promise<{ key: Uint8Array; reason: string }[]> {
  const damaged: { key: Uint8Array; reason: string }[] = [];
  await core.order.drained();
  for (const { entries } of await core.store.accounts()) {
    for (const id of [...entries.keys()]) {
      const reason = await core.verify(id);
      if (reason !== undefined && isDamage(reason)) damaged.push({ key: keyOf(id), reason });
    }
  }
  return damaged;
}

/** Asks the browser to keep what is stored. */
export async function persist(): Promise<boolean> {
  const storage = globalThis.navigator?.storage as Partial<StorageManager> | undefined;
  const asked = storage?.persist ? storage.persist() : storage?.persisted?.();
  return (await asked?.catch(() => false)) ?? false;
}

/** Sets new bounds. */
export async function resize(
  { order, store }: Core,
  { maxBytes, maxEntries }: { maxBytes?: number; maxEntries?: number },
): Promise<void> {
  const limits = { maxBytes: bound("maxBytes", maxBytes), maxEntries: bound("maxEntries", maxEntries) };
  await order.drained();
  await store.setLimits(limits);
}

/** Yields the heads of all entries in the order of eviction. Reads small values, which contain their heads. */
async function* listed(core: Core): AsyncGenerator<{ id: string; head: Head; usedMs: number; storedSize: number }> {
  for (const { entries } of await core.store.accounts()) {
    const all = [...entries];
    for (let at = 0; at < all.length; at += AT_ONCE) {
      const some = all.slice(at, at + AT_ONCE);
      const look = ([id, { size, large }]: [string, Account]): { head: Head } | Promise<Found | string> => {
        const found = large && openedHead(large, size - large.h.length, id);
        return typeof found === "object" ? found : core.peek(id);
      };
      const peeked = await Promise.all(some.map(look));
      for (const [nth, found] of peeked.entries()) {
        const [id, { usedMs, size }] = some[nth]!;
        if (typeof found !== "string") yield { id, head: found.head, usedMs, storedSize: size };
      }
    }
  }
}

/** The number of entries that are read at a time: at most 12 MiB of small values. */
const AT_ONCE = 256;

function changes(all: (string | undefined)[]): { label: string; old?: string; new?: string }[] {
  const made = [];
  for (let at = 0; at < all.length; at += 3) {
    const [label = "", before, after] = all.slice(at, at + 3);
    made.push({ label, ...(before === undefined ? {} : { old: before }), ...(after === undefined ? {} : { new: after }) });
  }
  return made;
}
