// A cache is opened, and something is in the way.

export const tests = {
  "a page that computes while it opens a cache has a database": async (t) => {
    const { open } = IDBFactory.prototype;
    t.after(() => (IDBFactory.prototype.open = open));
    IDBFactory.prototype.open = function (...given) {
      const request = open.apply(this, given);
      request.addEventListener("upgradeneeded", () => {
        const until = performance.now() + 3500;
        while (performance.now() < until);
      });
      return request;
    };
    const cache = await t.open();
    t.equal((await cache.stats()).backend, "indexeddb");
  },
};
