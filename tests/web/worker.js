// A module worker that runs a suite.

import { runSuite } from "/tests/web/kit.js";

globalThis.onmessage = async ({ data: { file, mode } }) => {
  try {
    globalThis.postMessage({ results: await runSuite(file, mode) });
  } catch (error) {
    globalThis.postMessage({ error: String(error?.stack ?? error) });
  }
};
