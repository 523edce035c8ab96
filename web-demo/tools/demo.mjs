#!/usr/bin/env node
// `npm run demo`: builds the site of the demo and serves it. `npm run demo -- --help` names the options.

import { parseArgs } from "node:util";

import { build } from "./build.mjs";
import { serve } from "./server.mjs";

const HELP = `npm run demo -- [options]

  --port N          serves at this port: 8080 by default, or the next free one
  --mbit N          serves at N megabits per second, to show what a visitor with such a line gains
  --build-only      builds the site in target/web-demo/site, and does not serve it
  --package FOLDER  uses the built npm package in this folder (with dist/ and engine/), and does not build wasm/npm
`;

try {
  await main();
} catch (error) {
  console.error(`\n${error.message}`);
  process.exitCode = 1;
}

async function main() {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: "8080" },
      mbit: { type: "string" },
      "build-only": { type: "boolean", default: false },
      package: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(HELP);
  const [port, mbit] = [number("port", values.port), number("mbit", values.mbit)];
  const site = await build({ packageFolder: values.package, log: console.log });
  if (values["build-only"]) return;
  const server = await serve(site, { port, mbit });
  console.log(`\nThe demo is at ${server.url}\nCtrl+C ends it.`);
}

function number(name, text) {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${name} is ${text}; pass a number above 0.`);
  return value;
}
