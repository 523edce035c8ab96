// Assertions for pages and Node.

/** Fails unless both are the same: numbers, texts, bytes, lists and plain objects, whatever they hold. */
export function equal(actual, expected, note) {
  const difference = compare(actual, expected, "");
  if (difference !== undefined) throw new Error(`${note ? `${note}: ` : ""}${difference}`);
}

/** Fails unless the value is true, or something like it. */
export function ok(value, note = "this does not hold") {
  if (!value) throw new Error(`${note}: ${shown(value)}`);
}

/** Fails unless the promise, or that of the function, rejects with this `code` or `name`. Returns the error. */
export async function rejects(promise, code, note) {
  let value;
  try {
    value = await (typeof promise === "function" ? promise() : promise);
  } catch (error) {
    if (code === undefined || error?.code === code || error?.name === code) return error;
    throw new Error(`${note ? `${note}: ` : ""}rejected with ${shown(error?.code ?? error?.name)} in place of ${code}`, {
      cause: error,
    });
  }
  throw new Error(`${note ? `${note}: ` : ""}did not reject: ${shown(value)}`);
}

/** Why a test cannot run here. */
export class Ignored extends Error {}

/** Ends a test that cannot run here. */
export function ignore(reason) {
  throw new Ignored(reason);
}

/** Where the two differ, in words, or nothing. */
function compare(actual, expected, at) {
  const where = at ? `at ${at}: ` : "";
  const differ = `${where}${shown(actual)} in place of ${shown(expected)}`;
  if (Object.is(actual, expected)) return undefined;
  if (!isObject(actual) || !isObject(expected)) return differ;
  if (isBytes(actual) || isBytes(expected)) {
    if (!isBytes(actual) || !isBytes(expected)) return differ;
    return compareBytes(asBytes(actual), asBytes(expected), where);
  }
  if (Array.isArray(actual) !== Array.isArray(expected)) return differ;
  if (actual instanceof Map && expected instanceof Map) return compare([...actual], [...expected], at);
  const names = new Set([...Object.keys(actual), ...Object.keys(expected)]);
  for (const name of names) {
    const found = compare(actual[name], expected[name], at ? `${at}.${name}` : name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function compareBytes(actual, expected, where) {
  if (actual.length !== expected.length) {
    return `${where}${actual.length} bytes in place of ${expected.length}`;
  }
  const at = actual.findIndex((byte, index) => byte !== expected[index]);
  return at < 0 ? undefined : `${where}byte ${at} is ${actual[at]} in place of ${expected[at]}`;
}

const isObject = (value) => typeof value === "object" && value !== null;
const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);

function asBytes(value) {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

function shown(value) {
  if (value instanceof Error) return String(value);
  if (isBytes(value)) return `${value.byteLength} bytes`;
  const text = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? `${part}n` : part)) ?? String(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}
