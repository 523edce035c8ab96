// A new Vite project that installs the tarball, builds, and uses it on the page and in a module worker; and a page without a bundler.

import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

const PROJECT = {
  "package.json": '{ "name": "new-project", "private": true, "type": "module" }',
  "index.html": '<!doctype html><meta charset="utf-8"><title>new</title><script type="module" src="/main.ts"></script>',
  "main.ts": `
    import { key, open, type Cache } from "warmstart";

    const cache: Cache = await open({ name: "project", maxBytes: 50e6 });
    const wanted = key("project", 1, { model: "tiny", bits: 4 });
    let builds = 0;
    const value: Uint8Array = await cache.getOrCreate(wanted, () => ((builds += 1), new Uint8Array(100_000).fill(7)));
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      Object.assign(globalThis, { result: { builds, length: value.length, backend: cache.backend, worker: data } });
    };
  `,
  "worker.ts": `
    import { key, open } from "warmstart";

    const cache = await open({ name: "project" });
    const value = await cache.get(key("project", 1, { model: "tiny", bits: 4 }));
    postMessage({ length: value?.length, backend: cache.backend });
  `,
  "unused.ts": 'import { WarmstartError } from "warmstart"; console.log(WarmstartError.name);',
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      target: "ES2022",
      module: "ES2022",
      moduleResolution: "bundler",
      lib: ["ES2023", "DOM", "ESNext.Disposable"],
      types: [],
      strict: true,
      noEmit: true,
      skipLibCheck: false,
    },
    include: ["*.ts"],
  }),
  "vite.config.js": `
    const input = process.env.ENTRY ? { input: process.env.ENTRY } : {};
    export default { base: "./", logLevel: "error", worker: { format: "es" }, build: { target: "es2022", rollupOptions: input } };
  `,
};

const PLAIN = `
  <!doctype html>
  <meta charset="utf-8">
  <script type="importmap">{ "imports": { "warmstart": "./node_modules/warmstart/dist/index.js" } }</script>
  <script type="module">
    import { open } from "warmstart";

    const cache = await open({ name: "plain" });
    const text = await cache.getOrCreate("key", () => "value", { as: "text" });
    globalThis.result = { text, backend: cache.backend };
  </script>`;

export const cases = {
  "a new Vite project uses the tarball, and then starts warm": async (t) => {
    const { folder, vite } = await project(t);
    await vite();
    t.server.mount("/built/", path.join(folder, "dist"));
    const page = await (await t.launch()).open(t.server.url("/built/index.html"));
    const result = async () => (await page.waitForFunction(() => globalThis.result)).jsonValue();
    const used = { length: 100_000, backend: "indexeddb", worker: { length: 100_000, backend: "indexeddb" } };
    t.equal(await result(), { builds: 1, ...used });
    await page.reload();
    t.equal(await result(), { builds: 0, ...used });
    t.equal(page.problems, []);
  },

  "a plain page uses the tarball by an import map": async (t) => {
    const { folder } = await project(t);
    await writeFile(path.join(folder, "plain.html"), PLAIN);
    t.server.mount("/plain/", folder);
    const page = await (await t.browser()).open(t.server.url("/plain/plain.html"));
    t.equal(await (await page.waitForFunction(() => globalThis.result)).jsonValue(), { text: "value", backend: "indexeddb" });
    t.equal(page.problems, []);
  },

  "its types are whole and strict": async (t) => {
    const { folder } = await project(t);
    const tsc = path.join(t.root, "wasm/npm/node_modules/typescript/bin/tsc");
    const checked = await run(process.execPath, [tsc, "--project", folder]).catch((error) => error);
    t.equal(checked.stdout, "");
  },

  "what is not used is left out of what is built": async (t) => {
    const { folder, vite } = await project(t);
    await vite({ ENTRY: "unused.ts" });
    const assets = path.join(folder, "dist/assets");
    const built = await Promise.all((await readdir(assets)).map((name) => readFile(path.join(assets, name), "utf8")));
    const text = built.join("");
    t.ok(text.includes("WarmstartError"), "it is the right bundle");
    t.ok(text.length < 4_000, `${text.length} characters for one class`);
  },

  "nothing but what is needed is in the tarball": async (t) => {
    const { folder } = await project(t);
    const installed = path.join(folder, "node_modules/warmstart");
    const described = JSON.parse(await readFile(path.join(installed, "package.json"), "utf8"));
    t.equal([described.name, described.dependencies, described.sideEffects], ["warmstart", undefined, false]);
    t.equal((await readdir(installed)).toSorted(), ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"]);
    const found = await readdir(installed, { recursive: true, withFileTypes: true });
    const files = found.filter((entry) => entry.isFile() && entry.parentPath !== installed).map((entry) => entry.name);
    t.equal(files.filter((name) => !/\.(js|d\.ts)$/.test(name)), []);
    t.equal(await readdir(path.join(folder, "node_modules")).then((names) => names.filter((name) => !name.startsWith("."))), ["warmstart"]);
  },
};

/** A project with the tarball installed, and nothing else: no registry is asked. */
async function project(t) {
  const folder = await t.folder("project");
  for (const [name, text] of Object.entries(PROJECT)) await writeFile(path.join(folder, name), text);
  const install = ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", t.tarball];
  // npm is a script, and says where, if it is not that of the machine.
  const { npm_execpath: npm } = process.env;
  const [program, first] = npm ? [process.execPath, [npm]] : ["npm", []];
  await run(program, [...first, ...install], { cwd: folder });
  const script = path.join(t.root, "tests/web/node_modules/vite/bin/vite.js");
  const vite = (variables = {}) =>
    run(process.execPath, [script, "build"], { cwd: folder, env: { ...process.env, ...variables } });
  return { folder, vite };
}
