// Keys for WebGPU adapters: the same for the same inputs; a different key explains the difference.

const LIMITS = { maxBufferSize: 268435456, maxComputeWorkgroupSizeX: 256 };

/** An adapter as browsers show it: limits are accessors of the prototype. */
function adapter({ info = {}, features = ["shader-f16", "timestamp-query"], limits = LIMITS } = {}) {
  const accessors = {};
  for (const [name, value] of Object.entries(limits)) accessors[name] = { get: () => value, enumerable: true };
  return {
    info: { vendor: "acme", architecture: "rocket", device: "0x1", description: "Acme Rocket", ...info },
    features: new Set(features),
    limits: Object.create(Object.create(null, accessors)),
  };
}

const parts = (more = {}) => ({
  source: "@compute @workgroup_size(64) fn main() {}",
  entryPoint: "main",
  constants: { tile: 16, scale: 0.5 },
  extra: { m: 384, shape: "a" },
  ...more,
});

/** The fields in which the nearest stored entry differs from `wanted`. */
async function changes(cache, wanted) {
  const { nearest } = await cache.explain(wanted);
  return nearest?.changes.map(({ label }) => label);
}

export const tests = {
  "the same inputs in another order give the same key": async (t) => {
    await t.open();
    const { webgpuKey } = t.warmstart;
    const turned = { maxComputeWorkgroupSizeX: 256, maxBufferSize: 268435456 };
    const one = webgpuKey(adapter(), parts());
    const other = webgpuKey(
      adapter({ features: ["timestamp-query", "shader-f16"], limits: turned }),
      parts({ constants: { scale: 0.5, tile: 16 }, extra: { shape: "a", m: 384 } }),
    );
    t.equal(one.name, other.name);
  },

  "whatever differs gives another key, and explain names it": async (t) => {
    const cache = await t.open();
    const { webgpuKey } = t.warmstart;
    const stored = webgpuKey(adapter(), parts());
    await cache.put(stored, "tuned");
    t.equal((await cache.explain(webgpuKey(adapter(), parts()))).hit, true);
    const others = {
      "adapter.vendor": webgpuKey(adapter({ info: { vendor: "other" } }), parts()),
      "adapter.architecture": webgpuKey(adapter({ info: { architecture: "other" } }), parts()),
      "adapter.device": webgpuKey(adapter({ info: { device: "0x2" } }), parts()),
      "adapter.description": webgpuKey(adapter({ info: { description: "other" } }), parts()),
      "adapter.is_fallback": webgpuKey(adapter({ info: { isFallbackAdapter: true } }), parts()),
      "adapter.subgroup_min_size": webgpuKey(adapter({ info: { subgroupMinSize: 32 } }), parts()),
      features: webgpuKey(adapter({ features: ["shader-f16"] }), parts()),
      "limit.maxBufferSize": webgpuKey(adapter({ limits: { ...LIMITS, maxBufferSize: 1 } }), parts()),
      "limit.maxNewThing": webgpuKey(adapter({ limits: { ...LIMITS, maxNewThing: 1 } }), parts()),
      "constant.tile": webgpuKey(adapter(), parts({ constants: { tile: 8, scale: 0.5 } })),
      "constant.scale": webgpuKey(adapter(), parts({ constants: { tile: 16, scale: 0.25 } })),
      "extra.m": webgpuKey(adapter(), parts({ extra: { m: 385, shape: "a" } })),
      entry_point: webgpuKey(adapter(), parts({ entryPoint: "other" })),
      source: webgpuKey(adapter(), parts({ source: "@compute @workgroup_size(32) fn main() {}" })),
    };
    for (const [label, wanted] of Object.entries(others)) {
      t.ok(wanted.name !== stored.name, `${label} is in the key`);
      t.equal(await changes(cache, wanted), [label]);
    }
  },

  "an update of the browser gives another key": async (t) => {
    await t.open();
    const name = () => t.warmstart.webgpuKey(adapter(), parts()).name;
    const before = name();
    t.equal(name(), before);
    const updated = navigator.userAgent.replace(/(Chrome|Firefox)\/\d+/, "$1/9999");
    t.ok(updated !== navigator.userAgent, updated);
    t.after(() => delete navigator.userAgent);
    Object.defineProperty(navigator, "userAgent", { value: updated, configurable: true });
    t.ok(name() !== before);
  },

  "a key of neither an adapter nor a device is an error": async (t) => {
    await t.open();
    for (const wrong of [undefined, {}, { adapter: adapter() }]) {
      await t.rejects(() => t.warmstart.webgpuKey(wrong, parts()), "invalid_argument");
    }
  },

  "different numbers give different keys": async (t) => {
    await t.open();
    const of = (tile) => t.warmstart.webgpuKey(adapter(), parts({ constants: { tile } })).name;
    const names = [0, -0, 1, 1.5, 1e300, -1].map(of);
    t.equal(new Set(names).size, names.length);
  },

  "the key of a real adapter has all its limits": async (t) => {
    await t.open();
    const real = (await navigator.gpu?.requestAdapter()) ?? t.lacking("WebGPU adapter");
    const device = await real.requestDevice();
    t.after(() => device.destroy());
    const { fields } = t.warmstart.webgpuKey(device, parts());
    const limits = Object.keys(fields).filter((label) => label.startsWith("limit."));
    t.ok(limits.length > 25, `${limits.length} limits`);
    t.equal(limits, [...limits].sort());
    t.equal(fields["limit.maxBufferSize"], String(device.limits.maxBufferSize));
    t.equal(fields["adapter.vendor"], real.info.vendor);
    t.equal(fields["adapter.is_fallback"], true, "SwiftShader is one");
    t.equal(t.warmstart.webgpuKey(real, parts()).fields["limit.maxBufferSize"], String(real.limits.maxBufferSize));
  },
};
