import path from "node:path";
import { defaultClientConditions, defineConfig } from "vite";

const ROOT = path.dirname(import.meta.dirname);
const OUTPUT = path.join(ROOT, "target/web-demo");
const WARMSTART = path.resolve(process.env.WARMSTART_PACKAGE ?? path.join(ROOT, "wasm/npm"));

export default defineConfig({
  // Relative addresses: the folder may be served from anywhere.
  base: "./",
  publicDir: path.join(OUTPUT, "public"),
  resolve: {
    alias: { warmstart: path.join(WARMSTART, "dist/index.js") },
    // Without it, the runtime's scripts are bundled, and cannot be cached with its WebAssembly.
    conditions: ["onnxruntime-web-use-extern-wasm", ...defaultClientConditions],
  },
  plugins: [transformers(), paintedOnce()],
  worker: { format: "es", plugins: () => [transformers()] },
  build: {
    outDir: path.join(OUTPUT, "site"),
    emptyOutDir: true,
    target: "es2023",
    // transformers.js is half a megabyte; nothing can be done about that here.
    chunkSizeWarningLimit: 1000,
    rolldownOptions: { input: ["index.html", "tab.html"] },
  },
});

/**
 * Resolves `transformers:wasm` to transformers.js over the ONNX Runtime for WebAssembly alone: the one for WebGPU, which
 * transformers.js imports, is twice as large, and slower on WebAssembly.
 */
function transformers() {
  return {
    name: "transformers",
    enforce: "pre",
    async resolveId(name, importer) {
      if (name === "transformers:wasm") return `${(await this.resolve("@huggingface/transformers", importer)).id}?wasm`;
      if (name === "onnxruntime-web/webgpu" && importer.endsWith("?wasm")) {
        return this.resolve("onnxruntime-web/wasm", importer, { skipSelf: true });
      }
    },
  };
}

/** Lets the page be painted only when its script has filled it, so that nothing moves then. */
function paintedOnce() {
  const blocking = (html) => html.replaceAll('<script type="module"', '<script type="module" blocking="render"');
  return { name: "painted-once", transformIndexHtml: { order: "post", handler: blocking } };
}
