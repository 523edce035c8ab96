/** The element with this id. */
export const $ = (id) => document.getElementById(id);

/** Makes an HTML element. Attributes whose value is undefined or false are left out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Makes an SVG element. */
export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/** A duration for people. */
export function duration(ms) {
  if (ms === undefined) return "";
  if (ms < 0.95) return "under 1 ms";
  if (ms < 995) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s`;
}

/** A size for people. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1e6).toFixed(bytes < 9.95e6 ? 1 : 0)} MB`;
}
