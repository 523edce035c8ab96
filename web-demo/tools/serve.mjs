// Serves the site as static hosts do: with strong entity tags and ranges, so that browsers revalidate and downloads resume.

import { createServer } from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import serve from "serve-handler";

const SITE = path.join(import.meta.dirname, "../../target/web-demo/site");
const HEADERS = [{ key: "cache-control", value: "public, max-age=0, must-revalidate" }];

/** Answers a request for a file of the site. */
export function answer(request, response) {
  const headers = [{ source: "**", headers: HEADERS }];
  // A folder is its index.html; no other address is redirected.
  return serve(request, response, { public: SITE, etag: true, cleanUrls: ["/"], headers });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { port: { type: "string", default: "8080" } } });
  const server = createServer(answer).listen(Number(values.port), "localhost");
  server.on("listening", () => console.log(`\nThe demo is at http://localhost:${values.port}/\nCtrl+C ends it.`));
  server.on("error", ({ message }) => {
    console.error(`${message}: choose another port, by npm run demo -- --port N`);
    process.exitCode = 1;
  });
}
