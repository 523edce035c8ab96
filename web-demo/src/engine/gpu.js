/**
 * Looks for a graphics processor.
 *
 * The kernels run on any adapter. The model runs there only if the adapter is a real one: a software adapter
 * is many times slower than WebAssembly. `wanted` ("webgpu" or "wasm") decides otherwise, where it can.
 *
 * @returns {Promise<{ device?: GPUDevice, model: "webgpu" | "wasm", shown: object }>}
 */
export async function findGpu(wanted) {
  const none = (why) => ({ device: undefined, model: "wasm", shown: { available: false, name: why } });
  if (wanted === "none") return none("not used, as you asked");
  if (!navigator.gpu) return none("this browser has no WebGPU");
  try {
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) return none("no adapter");
    const device = await adapter.requestDevice();
    const software = adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false;
    const { vendor, architecture, description } = adapter.info ?? {};
    const name = description || [vendor, architecture].filter(Boolean).join(" ") || "unnamed adapter";
    const model = wanted === "webgpu" || (wanted !== "wasm" && !software) ? "webgpu" : "wasm";
    return { device, model, shown: { available: true, name, software } };
  } catch (error) {
    return none(error.message);
  }
}
