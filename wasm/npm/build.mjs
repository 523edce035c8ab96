// Builds engine/ and dist/: `npm run build`. --pack also leaves the tarball in target/package, --test installs what tests/web needs, and --lint runs the linters.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";

const ROOT = path.join(import.meta.dirname, "../..");
const PACKAGE = "wasm/npm";
const WORK = "target/package/engine";

/** The wasm module. */
const MODULE = "warmstart_wasm";

/**
 * SIMD hashes twice as fast, and all current browsers support it. The pass removes arguments that no code reads, such as the texts of
 * panics, which a page cannot show: they would add 2 KiB to the module.
 */
const RUSTFLAGS = "-C target-feature=+simd128 -C passes=deadargelim";
const TARGET = "wasm32-unknown-unknown";
const BINDGEN = "run --quiet --package warmstart-tools --profile tool --features bindgen --bin bindgen --";

/** The features of all current browsers, and the passes that shrink the module: wasm/SIZE.md lists their gains. */
const WASM_OPT =
  "--enable-bulk-memory --enable-sign-ext --enable-mutable-globals --enable-nontrapping-float-to-int --enable-simd " +
  "--enable-reference-types --enable-multivalue " +
  "-O2 -Oz --converge --reorder-functions --reorder-locals --strip-producers --strip-target-features";

const asked = process.argv.slice(2);
process.chdir(ROOT);
install(PACKAGE);
buildEngine();
rmSync(`${PACKAGE}/dist`, { recursive: true, force: true });
node(`${PACKAGE}/node_modules/typescript/bin/tsc`, `--project ${PACKAGE}`);
// One file: without a bundler, a page would request forty, in turns of those that import each other.
const { buildSync } = await import("esbuild");
const [entryPoints, outfile] = [[`${PACKAGE}/src/index.ts`], `${PACKAGE}/dist/index.js`];
// Code that runs when a class is declared would keep a bundler from leaving the class out.
buildSync({ entryPoints, outfile, bundle: true, format: "esm", target: "es2022", define: { "Symbol.dispose": "undefined" } });
for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) cpSync(name, `${PACKAGE}/${name}`);
// --ignore-scripts, because the package was just built.
if (asked.includes("--pack")) npm(`pack ./${PACKAGE} --ignore-scripts --loglevel=error --pack-destination target/package`);
if (asked.includes("--test")) install("tests/web");
if (asked.includes("--lint")) npm("run lint --loglevel=error", PACKAGE);

/** Builds the module and writes engine/, unless it is up to date. */
function buildEngine() {
  const library = execFileSync("rustc", ["--print", "target-libdir", "--target", TARGET], { encoding: "utf8" });
  if (!existsSync(library.trim())) run("rustup", `target add ${TARGET}`);
  run("cargo", `build --package warmstart-wasm --profile wasm --target ${TARGET} --target-dir target`, { RUSTFLAGS });
  const built = `target/${TARGET}/wasm/${MODULE}.wasm`;

  const sum = createHash("sha256");
  for (const file of [built, "Cargo.lock", `${PACKAGE}/package-lock.json`, `${PACKAGE}/build.mjs`]) sum.update(readFileSync(file));
  const stamp = sum.digest("hex");
  const madeFrom = `${WORK}/made-from`;
  if (existsSync(`${PACKAGE}/engine`) && existsSync(madeFrom) && readFileSync(madeFrom, "utf8") === stamp) return;

  for (const folder of [WORK, `${PACKAGE}/engine`]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  const small = `${WORK}/${MODULE}.wasm`;
  run("cargo", `${BINDGEN} ${built} ${WORK}`);
  node(`${PACKAGE}/node_modules/binaryen/bin/wasm-opt`, `${WASM_OPT} ${WORK}/${MODULE}_bg.wasm -o ${small}`);
  for (const end of ["js", "d.ts"]) cpSync(`${WORK}/${MODULE}.${end}`, `${PACKAGE}/engine/${MODULE}.${end}`);
  // An inlined module needs no bundler settings, and works in every worker. Of hexadecimal digits, gzip finds the repeated bytes.
  writeFileSync(`${PACKAGE}/engine/wasm.js`, `export default "${readFileSync(small, "hex")}";\n`);
  writeFileSync(`${PACKAGE}/engine/wasm.d.ts`, "declare const wasm: string;\nexport default wasm;\n");
  writeFileSync(madeFrom, stamp);
}

/** Installs the packages of a folder's lock file, unless they are installed. Runs no scripts of packages. */
function install(folder) {
  const time = (file) => statSync(`${folder}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (time("node_modules/.package-lock.json") > time("package-lock.json")) return;
  npm("ci --include=dev --ignore-scripts --no-audit --no-fund --loglevel=error", folder);
}

/** Uses the npm that runs this script, or the one on the `PATH`. */
function npm(line, cwd) {
  const script = process.env.npm_execpath;
  return script ? node(script, line, cwd) : start("npm", line.split(" "), {}, cwd);
}

function node(script, line, cwd) {
  start(process.execPath, [script, ...line.split(" ")], {}, cwd);
}

function run(program, line, variables) {
  start(program, line.split(" "), variables);
}

function start(program, words, variables = {}, cwd = ROOT) {
  console.log(`$ ${path.basename(program)} ${words.join(" ")}`);
  const { error, status } = spawnSync(program, words, { stdio: "inherit", env: { ...process.env, ...variables }, cwd });
  if (status === 0) return;
  // The program has printed its error.
  console.error(error ? `${program} could not be started: ${error.message}` : `failed: ${program} ${words[0]}`);
  process.exit(1);
}
