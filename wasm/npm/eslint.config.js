// Lints what the compiler emits, in place of the TypeScript: typescript-eslint does not support TypeScript 7 yet.

import js from "@eslint/js";
import globals from "globals";

/** Globals that the pages of the tests define, or their Chromium. */
const names = ["cache", "gc", "happened", "kit", "raw", "shifts", "tvmjs", "warmstart", "warnings"];
const pages = Object.fromEntries(names.map((name) => [name, false]));

export default [
  { ignores: ["**/node_modules/", "**/engine/", "wasm/npm/dist/"] },
  js.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.worker, ...globals.node, ...pages } },
    rules: { "no-sparse-arrays": "off", "no-unused-vars": ["error", { ignoreRestSiblings: true }] },
  },
];
