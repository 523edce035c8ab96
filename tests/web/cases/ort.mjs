// The published onnxruntime-web, with its WebAssembly and a model from the cache, as the package's README says.

const FOLDER = "/node_modules/onnxruntime-web/dist/";

export const cases = {
  "onnxruntime-web starts without a request on a second visit": async (t) => {
    const browser = await t.browser();
    t.server.mount("/model.onnx", (_, response) => response.end(Buffer.from(DOUBLE)));
    for (const visit of ["first", "second"]) {
      t.server.counts.clear();
      const page = await t.page(browser);
      const doubled = await page.evaluate(async (folder) => {
        const ort = await import(`${folder}ort.wasm.min.mjs`);
        const cache = await warmstart.open({ name: "models" });
        const bytes = (url) => cache.getOrCreate(url, ({ signal }) => fetch(url, { signal }));
        ort.env.wasm.numThreads = 1;
        ort.env.wasm.wasmBinary = await bytes(`${folder}ort-wasm-simd-threaded.wasm`);
        const session = await ort.InferenceSession.create(await bytes("/model.onnx"));
        const { y } = await session.run({ x: new ort.Tensor("float32", [1, 2, 3], [3]) });
        return [...y.data];
      }, FOLDER);
      t.equal([doubled, page.problems], [[2, 4, 6], []], visit);
      const asked = t.server.requests("/model.onnx") + t.server.requests(`${FOLDER}ort-wasm-simd-threaded.wasm`);
      t.equal(asked, visit === "first" ? 2 : 0, visit);
    }
  },
};

/** A field of a protocol buffer: a number, or a text, a message or a list of messages. */
function field(number, value) {
  if (typeof value === "number") return [number << 3, value];
  const bytes = typeof value === "string" ? [...Buffer.from(value)] : value.flat();
  return [(number << 3) | 2, bytes.length, ...bytes];
}

/** The ONNX model `y = x + x` of three numbers: field numbers of onnx.proto. */
const TENSOR = (name) => [
  field(1, name),
  field(2, [field(1, [field(1, 1), field(2, [field(1, [field(1, 3)])])])]),
];
const GRAPH = [
  field(1, [field(1, "x"), field(1, "x"), field(2, "y"), field(4, "Add")]),
  field(2, "double"),
  field(11, TENSOR("x")),
  field(12, TENSOR("y")),
];
const DOUBLE = [field(1, 8), field(7, GRAPH), field(8, [field(2, 13)])].flat();
