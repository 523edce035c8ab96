import { duration, size } from "./dom.js";
import { Engine } from "./engine.js";

/**
 * Runs a trial in a worker of its own. `onProgress` receives its progress, and a function that ends the worker at once:
 * then the trial resolves with nothing.
 */
export async function runTrial(name, options, onProgress = () => undefined) {
  const ended = Promise.withResolvers();
  const worker = new Engine((message) => message.type === "progress" && onProgress(message, end));
  function end() {
    worker.end();
    ended.resolve();
  }
  const site = new URL(".", document.baseURI).href;
  return Promise.race([worker.ask({ type: "trial", name, site, ...options }, "done"), ended.promise]).finally(end);
}

/** Describes what a tab did in the trial with two tabs. */
export function outcome({ built, ms, size: bytes }) {
  return built ? `compressed it, to ${size(bytes)}, in ${duration(ms)}` : `waited ${duration(ms)} and received it`;
}
