// What the page remembers between visits, apart from the cache: the times of earlier visits and the bound that was set.

const PREFIX = "warmstart-demo.";

/** What was saved under `name`, or nothing: also where the browser keeps nothing. */
export function load(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Saves a value, or forgets it if it is undefined. */
export function save(name, value) {
  try {
    if (value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing shows one visit at a time.
  }
}
