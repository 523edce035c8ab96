// Builds engine/ and dist/: `npm run build`. --pack also leaves the tarball in target/package, and --test installs what tests/web needs.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

const ROOT = path.join(import.meta.dirname, "../..");
const PACKAGE = "wasm/npm";
const WORK = "target/package/engine";

/** The wasm modules, and the scripts that they are inlined in. Only pages that launch load the second. */
const MODULES = { warmstart_wasm: "wasm", warmstart_wasm_launch: "launch" };

/** What a module may have at most, in bytes: as it is, and after `gzip -9`. */
const MAX_RAW = 64 << 10;
const MAX_GZIPPED = 28 << 10;

/**
 * SIMD hashes twice as fast, and every browser of today has it. The pass leaves out arguments that no code reads. The texts of panics
 * are such, and a page cannot show them: with them the module is 2 KiB longer.
 */
const RUSTFLAGS = "-C target-feature=+simd128 -C passes=deadargelim";
const TARGET = "wasm32-unknown-unknown";
const BINDGEN = "run --quiet --package warmstart-tools --profile tool --features bindgen --bin bindgen --";

/** What every browser of today has, and what makes the module small: wasm/SIZE.md says what each gains. */
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
for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) cpSync(name, `${PACKAGE}/${name}`);
// What is packed was just built.
if (asked.includes("--pack")) npm(`pack ./${PACKAGE} --ignore-scripts --loglevel=error --pack-destination target/package`);
if (asked.includes("--test")) install("tests/web");

/** Builds the modules and fills engine/, unless it was filled from the same modules. */
function buildEngine() {
  const library = execFileSync("rustc", ["--print", "target-libdir", "--target", TARGET], { encoding: "utf8" });
  if (!existsSync(library.trim())) run("rustup", `target add ${TARGET}`);
  const packages = Object.keys(MODULES).map((name) => `--package ${name.replaceAll("_", "-")}`);
  run("cargo", `build ${packages.join(" ")} --profile wasm --target ${TARGET} --target-dir target`, { RUSTFLAGS });
  const built = (name) => `target/${TARGET}/wasm/${name}.wasm`;

  const sum = createHash("sha256");
  const sources = [...Object.keys(MODULES).map(built), "Cargo.lock", `${PACKAGE}/package-lock.json`, `${PACKAGE}/build.mjs`];
  for (const file of sources) sum.update(readFileSync(file));
  const stamp = sum.digest("hex");
  const madeFrom = `${WORK}/made-from`;
  const isThere = existsSync(`${PACKAGE}/engine`) && existsSync(madeFrom) && readFileSync(madeFrom, "utf8") === stamp;

  if (!isThere) {
    for (const folder of [WORK, `${PACKAGE}/engine`]) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { recursive: true });
    }
  }
  for (const [name, inlined] of Object.entries(MODULES)) {
    const small = `${WORK}/${name}.wasm`;
    if (!isThere) {
      run("cargo", `${BINDGEN} ${built(name)} ${WORK}`);
      node(`${PACKAGE}/node_modules/binaryen/bin/wasm-opt`, `${WASM_OPT} ${WORK}/${name}_bg.wasm -o ${small}`);
      for (const end of ["js", "d.ts"]) cpSync(`${WORK}/${name}.${end}`, `${PACKAGE}/engine/${name}.${end}`);
      // Inlined, the module needs no settings of any bundler, and works in every worker.
      writeFileSync(`${PACKAGE}/engine/${inlined}.js`, `export default "${readFileSync(small, "base64")}";\n`);
      writeFileSync(`${PACKAGE}/engine/${inlined}.d.ts`, "declare const wasm: string;\nexport default wasm;\n");
    }
    inspectSize(name, readFileSync(small));
  }
  writeFileSync(madeFrom, stamp);
}

function inspectSize(name, module) {
  const gzipped = gzipSync(module, { level: 9 }).length;
  const found = `${name}.wasm is ${module.length} bytes (at most ${MAX_RAW}), gzipped ${gzipped} (at most ${MAX_GZIPPED})`;
  if (module.length > MAX_RAW || gzipped > MAX_GZIPPED) throw new Error(found);
  console.log(found);
}

/** Installs exactly what the lock file of a folder names, unless that is there. No script of a package runs. */
function install(folder) {
  const time = (file) => statSync(`${folder}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (time("node_modules/.package-lock.json") > time("package-lock.json")) return;
  npm("ci --ignore-scripts --no-audit --no-fund --loglevel=error", folder);
}

/** npm says where it is; without it, the one of the machine will do. */
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
  // What the program said stands above.
  console.error(error ? `${program} could not be started: ${error.message}` : `failed: ${program} ${words[0]}`);
  process.exit(1);
}
