// A module worker that runs a suite: it answers each message with the result of the next test, and with nothing after the last.

import { runSuite } from "/tests/web/kit.js";

let suite;

globalThis.onmessage = async ({ data: { file, mode } }) => {
  suite ??= runSuite(file, mode);
  try {
    globalThis.postMessage({ result: (await suite.next()).value });
  } catch (error) {
    globalThis.postMessage({ error: String(error?.stack ?? error) });
  }
};
