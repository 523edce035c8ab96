// Where Chromium is: the one that CHROMIUM names, that of the machine, or else the one that an npm package carries.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { ROOT } from "./site.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** The package's name and version. */
const PINNED = path.join(ROOT, "tests/web/chromium");
/** Where the package is installed and unpacked. */
const UNPACKED = path.join(ROOT, "target/chromium");

let found;

/** The program, and the variables that it is started with; nothing where there is none for this machine. */
export function chromium() {
  return (found ??= find());
}

/** Returns the first program of these names on the `PATH`. */
export function onPath(names) {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return names.flatMap((name) => folders.map((folder) => path.join(folder, name))).find(existsSync);
}

async function find() {
  const program = process.env.CHROMIUM || onPath(NAMES);
  if (program) return { program, env: process.env };
  // The package has no other Chromium in it.
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const lock = (folder) => readFileSync(path.join(folder, "package-lock.json"), "utf8");
  try {
    if (!existsSync(UNPACKED) || lock(UNPACKED) !== lock(PINNED)) await unpack();
  } catch (error) {
    return void console.error(`Chromium could not be installed: ${error.message}`);
  }
  const env = {
    ...process.env,
    FONTCONFIG_PATH: path.join(UNPACKED, "fonts"),
    LD_LIBRARY_PATH: path.join(UNPACKED, "al2023/lib"),
  };
  return { program: path.join(UNPACKED, "chromium"), env };
}

async function unpack() {
  // Renamed when complete, so that an interrupted installation does not look complete.
  const incoming = `${UNPACKED}.incoming`;
  rmSync(incoming, { recursive: true, force: true });
  cpSync(PINNED, incoming, { recursive: true });
  const npm = process.env.npm_execpath;
  const [program, first] = npm ? [process.execPath, [npm]] : ["npm", []];
  const words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  console.log("there is no Chromium here: installing the one of tests/web/chromium/package.json in target/chromium");
  execFileSync(program, [...first, ...words], { cwd: incoming, stdio: "inherit" });
  const carrier = path.join(incoming, "node_modules/@sparticuz/chromium");
  const { default: carried, inflate } = await import(pathToFileURL(path.join(carrier, "build/index.js")).href);
  // It unpacks to where temporary files go.
  const { TMPDIR } = process.env;
  process.env.TMPDIR = incoming;
  await carried.executablePath();
  await inflate(path.join(carrier, "bin/al2023.tar.br"));
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
  rmSync(path.join(incoming, "node_modules"), { recursive: true });
  rmSync(UNPACKED, { recursive: true, force: true });
  renameSync(incoming, UNPACKED);
}

// `node tests/web/chromium.mjs` has it installed and prints where it is.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const there = await chromium();
  if (there !== undefined) console.log(there.program);
  process.exit(there === undefined ? 3 : 0);
}
