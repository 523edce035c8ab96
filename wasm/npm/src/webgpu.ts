import { invalid } from "./errors.js";
import { key, type FieldValue, type Key } from "./key.js";

/** A device describes exactly what its shaders may use; an adapter stands for everything that it offers. */
export type WebGpu = GPUAdapter | GPUDevice;

/** The fields of a {@link webgpuKey} besides the adapter's. */
export interface WebGpuKeyParts {
  /** The WGSL source. */
  readonly source: string;
  /** The name of the entry point. */
  readonly entryPoint?: string | undefined;
  /** The values of `override` declarations, in any order. */
  readonly constants?: Readonly<Record<string, number>> | undefined;
  /** Other inputs of the result, in any order, for example shapes or the version of a tuner. */
  readonly extra?: Readonly<Record<string, FieldValue>> | undefined;
}

/**
 * Makes a key for a value that was generated, tuned or compiled for a WebGPU adapter.
 *
 * The key covers the adapter, its features and limits, the browser's user agent (an update of the browser may
 * contain another compiler), the source, the entry point and the constants. The order of the inputs does not
 * matter. Each of them is a field of its own, so that `cache.explain(key)` names the one that differs.
 *
 * User agents have the major version alone, so updates within one share a key. If you know the full version, add
 * it to `extra`.
 *
 * @throws WarmstartError `invalid_argument` if `gpu` is neither an adapter nor a device, or an input cannot be a
 *   field of a key
 *
 * @example
 * ```ts
 * const tuned = webgpuKey(device, { source, extra: { m: 384, n: 384 } });
 * const tile = await cache.getOrCreate(tuned, async () => JSON.stringify(await tune()), { as: "json" });
 * ```
 */
export function webgpuKey(gpu: WebGpu, parts: WebGpuKeyParts): Key {
  return key("warmstart.webgpu", 1, {
    ...deviceFields(gpu),
    ...prefixed("limit.", gpu.limits),
    engine: navigator.userAgent,
    ...prefixed("constant.", parts.constants),
    ...prefixed("extra.", parts.extra),
    entry_point: parts.entryPoint ?? "",
    source: parts.source,
  });
}

/**
 * The adapter and its features, as fields of a key.
 *
 * @internal
 */
export function deviceFields(gpu: WebGpu): Record<string, FieldValue> {
  if (!gpu?.features || !gpu.limits)
    throw invalid("This is neither a GPUAdapter nor a GPUDevice; pass one of them.");
  const info: Partial<GPUAdapterInfo> = ("adapterInfo" in gpu ? gpu.adapterInfo : gpu.info) ?? {};
  return {
    "adapter.vendor": info.vendor ?? "",
    "adapter.architecture": info.architecture ?? "",
    "adapter.device": info.device ?? "",
    "adapter.description": info.description ?? "",
    "adapter.subgroup_min_size": info.subgroupMinSize ?? 0,
    "adapter.subgroup_max_size": info.subgroupMaxSize ?? 0,
    "adapter.is_fallback": info.isFallbackAdapter ?? false,
    features: [...gpu.features].sort(),
  };
}

/**
 * Sorts the fields by name. Numbers become text, because a constant may be a fraction; different numbers have
 * different texts.
 */
function prefixed(prefix: string, values: GPUSupportedLimits | WebGpuKeyParts["extra"]): Record<string, FieldValue> {
  const names: string[] = [];
  // The limits are accessors of the prototype: `for in` sees them, `Object.keys` does not.
  for (const name in values) names.push(name);
  const fields: Record<string, FieldValue> = {};
  for (const name of names.sort()) {
    const value = (values as Record<string, FieldValue>)[name]!;
    fields[prefix + name] = typeof value === "number" ? (Object.is(value, -0) ? "-0" : String(value)) : value;
  }
  return fields;
}
