// The state that the page keeps between visits, apart from the cache: the times of earlier visits and the chosen
// bound.

const PREFIX = "warmstart-demo.";

/** Returns the value saved under `name`, or nothing, as in a browser without storage. */
export function load(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Saves a value, or removes it if it is undefined. */
export function save(name, value) {
  try {
    if (value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Without storage, the page shows one visit at a time.
  }
}
