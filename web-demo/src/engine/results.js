/**
 * Keeps no results: every call builds. Stands in for a cache of warmstart in a visit with the default cache of
 * transformers.js, which keeps files and nothing else.
 */
export const unkept = {
  async getOrCreate(_, build, { as, onProgress = () => undefined } = {}) {
    const value = await build({ onProgress });
    if (as === "json") return JSON.parse(value);
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  },
};
