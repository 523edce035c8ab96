import type { Core } from "./core.js";
import { bound } from "./errors.js";
import { idOf, Key, keyBytes, type KeyInput, keyText } from "./key.js";
import { decodeMetadata } from "./metadata.js";
import type { EntryInfo, Explanation, Stats } from "./types.js";
import { damageOf } from "./verify.js";
import { explanation } from "./reasons.js";

/** Lists all entries in the order of eviction. */
export async function entries({ engine, order, store }: Core): Promise<EntryInfo[]> {
  await order.drained();
  const all = await store.list();
  return all.map(({ key, metadata, size, payload, createdMs, buildMs, usedMs }) => {
    const { label, headers, recipe } = decodeMetadata(metadata);
    return {
      key,
      text: keyText(key),
      label,
      type: headers.get("content-type") ?? undefined,
      headers,
      size: payload,
      storedSize: size,
      created: new Date(createdMs),
      lastUsed: new Date(usedMs),
      buildMs,
      recipe,
    };
  });
}

/** Returns the counters of the store, and its backend. */
export async function stats({ backend, store }: Core): Promise<Stats> {
  return { backend, reason: store.reason, ...(await store.statistics()) };
}

/** Explains whether a key would hit or miss. */
export async function explain({ engine, order, store }: Core, input: KeyInput): Promise<Explanation> {
  const key = keyBytes(input);
  const pending = order.pending(idOf(input));
  if (pending) await pending;
  const { reason, nearest } = await store.explain(key, input instanceof Key ? input.recipe : undefined);
  return {
    hit: reason === undefined,
    reason,
    text: reason === undefined ? "the value is stored" : explanation(engine, reason),
    nearest: nearest && {
      key: nearest.key,
      label: decodeMetadata(nearest.metadata).label,
      changes: nearest.changes,
    },
  };
}

/** Checks everything. Large values are read one after the other, so that one at a time takes memory. */
export async function verify(core: Core): Promise<{ key: Uint8Array | undefined; reason: string }[]> {
  const { engine, order, shape, store } = core;
  await order.drained();
  const damaged = (await store.verify()).map(({ key, reason }) => ({ key, reason }));
  for (const { key, payload } of await store.list()) {
    if (payload <= shape.small) continue;
    const [found] = await store.peek([key]);
    if (found === undefined || typeof found === "string" || found.bytes) continue;
    const reason = await damageOf(engine, found);
    if (reason === undefined) continue;
    await core.damaged(key, found, reason);
    damaged.push({ key, reason });
  }
  return damaged;
}

/** Asks the browser to keep what is stored. */
export async function persist(): Promise<boolean> {
  const storage = (globalThis.navigator as Navigator | undefined)?.storage as
    Partial<StorageManager> | undefined;
  try {
    return (await (storage?.persist ? storage.persist() : storage?.persisted?.())) ?? false;
  } catch {
    return false;
  }
}

/** Sets new bounds. */
export async function resize(
  { order, store }: Core,
  { maxBytes, maxEntries }: { maxBytes?: number; maxEntries?: number },
): Promise<void> {
  const bytes = bound("maxBytes", maxBytes);
  const count = bound("maxEntries", maxEntries);
  await order.drained();
  await store.setLimits(bytes, count);
}
