import { key, type FieldValue, type Key } from "./key.js";

/**
 * An adapter, a device, or both.
 *
 * A device describes exactly what its shaders may use; an adapter alone stands for everything that it offers.
 */
export type WebGpu =
  GPUAdapter | GPUDevice | { readonly adapter: GPUAdapter; readonly device?: GPUDevice | undefined };

/** The fields of a {@link webgpuKey} besides the adapter's. */
export interface WebGpuKeyParts {
  /** The WGSL source. */
  readonly source: string;
  /** The name of the entry point. */
  readonly entryPoint?: string | undefined;
  /** The values of `override` declarations, in any order. */
  readonly constants?: Readonly<Record<string, number>> | undefined;
  /** The relevant features, in any order. Defaults to all features of the device. */
  readonly features?: Iterable<string> | undefined;
  /** The relevant limits, as names or as names with values. Defaults to all limits of the device. */
  readonly limits?: readonly string[] | Readonly<Record<string, number>> | undefined;
  /** Other inputs of the result, in any order, for example shapes or the version of a tuner. */
  readonly extra?: Readonly<Record<string, FieldValue>> | undefined;
}

/**
 * Makes a key for a value that was generated, tuned or compiled for a WebGPU adapter.
 *
 * The key covers the adapter, its features and limits, the version of the browser's engine (an update of the
 * browser may contain another compiler), the source, the entry point and the constants. The order of the
 * inputs does not matter. Each of them is a field of its own, so that `cache.explain(key)` names the one that
 * differs.
 *
 * Browsers do not reveal their full version synchronously, so updates within one major version of the engine
 * share a key. If you know the full version, add it to `extra`.
 *
 * @throws WarmstartError `invalid_argument` if an input cannot be a field of a key
 *
 * @example
 * ```ts
 * const tuned = webgpuKey(device, { source, extra: { m: 384, n: 384 } });
 * const tile = await cache.getOrCreate(tuned, async () => JSON.stringify(await tune()), { as: "json" });
 * ```
 */
export function webgpuKey(gpu: WebGpu, parts: WebGpuKeyParts): Key {
  return key("warmstart.webgpu", 1, {
    ...deviceFields(gpu, parts.features),
    ...limitFields(gpu, parts.limits),
    engine: engineVersion(),
    ...prefixed("constant.", parts.constants ?? {}),
    ...prefixed("extra.", parts.extra ?? {}),
    entry_point: parts.entryPoint ?? "",
    source: parts.source,
  });
}

/**
 * The adapter and its features, as fields of a key.
 *
 * @internal
 */
export function deviceFields(gpu: WebGpu, features?: Iterable<string>): Record<string, FieldValue> {
  const { info, fallback, capable } = parts(gpu);
  return {
    "adapter.vendor": info?.vendor ?? "",
    "adapter.architecture": info?.architecture ?? "",
    "adapter.device": info?.device ?? "",
    "adapter.description": info?.description ?? "",
    "adapter.subgroup_min_size": info?.subgroupMinSize ?? 0,
    "adapter.subgroup_max_size": info?.subgroupMaxSize ?? 0,
    "adapter.is_fallback": fallback,
    features: [...new Set(features ?? (capable.features as ReadonlySet<string>))].sort(),
  };
}

/**
 * The engine of this browser and its version, for example `"Chromium 140"`.
 *
 * @internal
 */
function engineVersion(browser: Pick<Navigator, "userAgent"> = navigator): string {
  const brands = (browser as { userAgentData?: { brands?: { brand: string; version: string }[] } })
    .userAgentData?.brands;
  const chromium = brands?.find(({ brand }) => brand === "Chromium");
  if (chromium !== undefined) return `Chromium ${chromium.version}`;
  const agent = browser.userAgent;
  for (const [name, pattern] of ENGINES) {
    const found = pattern.exec(agent);
    if (found !== null) return `${name} ${found[1]}`;
  }
  return agent;
}

/**
 * Chromium calls itself AppleWebKit as well, so it stands first. Safari's own version says more than its
 * engine's, which is frozen.
 */
const ENGINES: readonly (readonly [string, RegExp])[] = [
  ["Chromium", /Chrom(?:e|ium)\/(\d+)/],
  ["Gecko", /Firefox\/(\d+)/],
  ["WebKit", /Version\/([\d.]+).*Safari\//],
  ["WebKit", /AppleWebKit\/([\d.]+)/],
];

/** The common members of adapters and devices of several browser versions. */
interface Capable {
  readonly features: Iterable<string>;
  readonly limits: GPUSupportedLimits;
  readonly info?: GPUAdapterInfo;
  readonly adapterInfo?: GPUAdapterInfo;
  readonly isFallbackAdapter?: boolean;
}

function parts(gpu: WebGpu): { info: GPUAdapterInfo | undefined; fallback: boolean; capable: Capable } {
  const adapter = ("adapter" in gpu ? gpu.adapter : gpu) as unknown as Capable;
  const capable = (("adapter" in gpu ? gpu.device : undefined) ?? adapter) as unknown as Capable;
  const info = adapter.info ?? adapter.adapterInfo ?? capable.adapterInfo;
  const fallback =
    (info as { isFallbackAdapter?: boolean } | undefined)?.isFallbackAdapter ?? adapter.isFallbackAdapter;
  return { info, fallback: fallback ?? false, capable };
}

function limitFields(gpu: WebGpu, wanted: WebGpuKeyParts["limits"]): Record<string, FieldValue> {
  const limits = parts(gpu).capable.limits as unknown as Record<string, unknown>;
  const values: Record<string, number> = {};
  if (wanted !== undefined && !Array.isArray(wanted)) Object.assign(values, wanted);
  else {
    // The limits are accessors of the prototype: `for in` sees them, `Object.keys` does not.
    const names: string[] = (wanted as string[] | undefined) ?? [];
    if (wanted === undefined) for (const name in limits) names.push(name);
    for (const name of names) {
      const value = limits[name];
      if (typeof value === "number") values[name] = value;
    }
  }
  return prefixed("limit.", values);
}

/**
 * Sorts the fields by name. Numbers become text, because a constant may be a fraction; different numbers have
 * different texts.
 */
function prefixed(prefix: string, values: Readonly<Record<string, FieldValue>>): Record<string, FieldValue> {
  const fields: Record<string, FieldValue> = {};
  for (const name of Object.keys(values).sort()) {
    const value = values[name] as FieldValue;
    fields[prefix + name] = typeof value === "number" ? (Object.is(value, -0) ? "-0" : String(value)) : value;
  }
  return fields;
}
