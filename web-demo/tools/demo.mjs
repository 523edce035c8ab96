#!/usr/bin/env node
// `npm run demo`: builds the site of the demo and serves it. `npm run demo -- --help` names the options.

import { parseArgs } from "node:util";

import { build } from "./build.mjs";
import { serve } from "./server.mjs";

const HELP = `npm run demo -- [options]

  --port N          where to serve, 8080 if left out; the next free one is taken if that is in use
  --mbit N          serves no faster than N megabits a second, to see what a visitor with such a line sees
  --build-only      builds the site under target/web-demo/site and stops
  --package FOLDER  takes a built package (with dist/ and engine/) instead of building wasm/npm
`;

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8080" },
    mbit: { type: "string" },
    "build-only": { type: "boolean", default: false },
    package: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) {
  console.log(HELP);
} else {
  try {
    const site = await build({ packageFolder: values.package, log: console.log });
    if (!values["build-only"]) {
      const server = await serve(site, { port: number("port"), mbit: number("mbit") });
      console.log(`\nThe demo is at ${server.url}\nCtrl+C ends it.`);
    }
  } catch (error) {
    console.error(`\n${error.message}`);
    process.exitCode = 1;
  }
}

function number(name) {
  if (values[name] === undefined) return undefined;
  const value = Number(values[name]);
  if (!(value > 0)) throw new Error(`--${name} ${values[name]}: give a number above 0`);
  return value;
}
