// Of all who want the same at once, one builds. Two caches of one name in a page share nothing but what two
// tabs share.

const gate = () => {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
};

/** Waits until a build has come to a point. Calls of one tick miss together, so they all wait for it by then. */
async function until(t, holds) {
  while (!holds()) await t.sleep(5);
}

export const tests = {
  "a miss is built once and is a hit from then on": async (t) => {
    const cache = await t.open();
    let builds = 0;
    const build = () => `built ${++builds}`;
    for (let n = 0; n < 3; n++) t.equal(await cache.getOrCreate("key", build, { as: "text" }), "built 1");
    const { hits, misses, builds: counted } = await cache.stats();
    t.equal([hits, misses, counted], [2, { absent: 1 }, 1]);
  },

  "a build gives every kind of value in every form": async (t) => {
    const cache = await t.open();
    for (const size of [9, 3_000_000]) {
      const bytes = t.bytes(size, 4);
      const values = [
        bytes.slice(),
        bytes.slice().buffer,
        new Blob([bytes]),
        new Response(bytes),
        new Response(bytes).body,
      ];
      for (const value of values) {
        await cache.clear();
        t.equal(await cache.getOrCreate("key", () => value), bytes);
        t.equal(await cache.get("key"), bytes);
      }
      for (const as of ["blob", "response"]) {
        await cache.clear();
        t.equal(
          await (await cache.getOrCreate("key", () => bytes.slice(), { as })).arrayBuffer(),
          bytes.buffer,
          as,
        );
      }
    }
    await cache.clear();
    t.equal(await cache.getOrCreate("key", () => '{"a":[1]}', { as: "json" }), { a: [1] });
  },

  "calls in one tab share one build and get arrays of their own": async (t) => {
    const cache = await t.open();
    for (const size of [100, 200_000]) {
      let builds = 0;
      const build = async () => {
        builds++;
        await t.sleep(20);
        return t.bytes(size, 6);
      };
      const calls = Array.from({ length: 10 }, () => cache.getOrCreate(`key ${size}`, build));
      const all = await Promise.all(calls);
      t.equal(builds, 1);
      all[0].fill(0);
      for (const one of all.slice(1)) t.equal(one, t.bytes(size, 6));
    }
    t.equal((await cache.stats()).shared, 18);
  },

  "of two tabs one builds": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    let builds = 0;
    const build = async () => {
      builds++;
      await t.sleep(100);
      return "built";
    };
    const calls = [one, two, one, two].map((cache) => cache.getOrCreate("key", build, { as: "text" }));
    t.equal(await Promise.all(calls), ["built", "built", "built", "built"]);
    t.equal(builds, 1);
    t.equal([(await one.stats()).builds, (await two.stats()).builds].sort(), [0, 1]);
  },

  "caches of different names do not wait for each other": async (t) => {
    const [one, two] = [await t.open(), await t.open()];
    const { open, opened } = gate();
    const slow = one.getOrCreate("key", () => opened.then(() => "one"), { as: "text" });
    t.equal(await two.getOrCreate("key", () => "two", { as: "text" }), "two");
    open();
    t.equal(await slow, "one");
  },

  "an error of a build reaches all calls and stores nothing": async (t) => {
    const cache = await t.open();
    const error = new RangeError("of the builder");
    const build = async () => {
      await t.sleep(10);
      throw error;
    };
    const calls = await Promise.allSettled([
      cache.getOrCreate("key", build),
      cache.getOrCreate("key", build),
    ]);
    for (const { reason } of calls) t.equal(reason === error, true);
    t.equal(await cache.has("key"), false);
    t.equal(await cache.getOrCreate("key", () => "better", { as: "text" }), "better");
    await t.rejects(
      cache.getOrCreate("none", () => undefined),
      "invalid_argument",
    );
    await t.rejects(cache.getOrCreate("none", "no function"), "invalid_argument");
  },

  "a value that cannot be stored is returned all the same": async (t) => {
    const cache = await t.open({ maxBytes: 1000 });
    for (const size of [2000, 100_000]) {
      t.equal(await cache.getOrCreate("key", () => t.bytes(size, 8)), t.bytes(size, 8));
      t.equal(await cache.has("key"), false);
    }
    t.equal((await cache.stats()).refusals, { oversize: 2 });
  },

  "one waiter's abort does not stop the build for others": async (t) => {
    const cache = await t.open();
    const { open, opened } = gate();
    let signal;
    const build = (context) => {
      ({ signal } = context);
      return opened.then(() => "built");
    };
    const leaves = new AbortController();
    const first = cache.getOrCreate("key", build, { signal: leaves.signal });
    const second = cache.getOrCreate("key", build, { as: "text" });
    await until(t, () => signal !== undefined);
    leaves.abort();
    await t.rejects(first, "AbortError");
    t.equal(signal.aborted, false);
    open();
    t.equal(await second, "built");
  },

  "the abort of the last waiting call stops the build": async (t) => {
    const cache = await t.open();
    const signals = [];
    const build = ({ signal }) => {
      signals.push(signal);
      return new Promise(() => undefined);
    };
    const [one, two] = [new AbortController(), new AbortController()];
    const calls = [one, two].map(({ signal }) => cache.getOrCreate("key", build, { signal }));
    calls.forEach((call) => call.catch(() => undefined));
    await until(t, () => signals.length > 0);
    one.abort();
    t.equal(
      signals.map(({ aborted }) => aborted),
      [false],
    );
    two.abort(new TypeError("mine"));
    await t.rejects(calls[0], "AbortError");
    await t.rejects(calls[1], "TypeError");
    t.equal(
      signals.map(({ aborted }) => aborted),
      [true],
    );
    t.equal(await cache.getOrCreate("key", () => "again", { as: "text" }), "again");
    await t.rejects(cache.getOrCreate("other", build, { signal: AbortSignal.abort() }), "AbortError");
  },

  "all waiting calls receive the progress": async (t) => {
    const cache = await t.open();
    const told = { first: [], second: [] };
    const { open, opened } = gate();
    const build = async ({ onProgress }) => {
      await opened;
      onProgress(1, 2);
      onProgress(2, 2);
      return "built";
    };
    const calls = Object.keys(told).map((name) =>
      cache.getOrCreate("key", build, { onProgress: (loaded, total) => told[name].push([loaded, total]) }),
    );
    await t.sleep(20);
    open();
    await Promise.all(calls);
    t.equal(told, {
      first: [
        [1, 2],
        [2, 2],
      ],
      second: [
        [1, 2],
        [2, 2],
      ],
    });
  },

  "the progress of a response is reported without the caller": async (t) => {
    const cache = await t.open();
    const told = [];
    const url = t.url("/faults/bytes?size=300000&seed=3");
    await cache.getOrCreate(url, () => fetch(url), { onProgress: (...progress) => told.push(progress) });
    t.ok(told.length > 0);
    t.equal(told.at(-1), [300000, 300000]);
  },

  "a build within a build may need the same keys": async (t) => {
    const cache = await t.open();
    const inner = await cache.getOrCreate(
      "outer",
      async () => {
        const both = [cache.getOrCreate("inner", () => "x"), cache.getOrCreate("inner", () => "y")];
        const [one, two] = await Promise.all(both);
        t.equal(one, two, "the same build");
        return one;
      },
      { as: "text" },
    );
    t.equal(inner, "x");
  },

  "builds that need each other do not wait for ever, in one tab": async (t) => {
    const cache = await t.open();
    const both = gate();
    let begun = 0;
    const needs = (other) => async () => {
      if (++begun === 2) both.open();
      await both.opened;
      return `${await cache.getOrCreate(other, () => "alone", { as: "text", waitMs: 300 })}!`;
    };
    const started = performance.now();
    const calls = [
      cache.getOrCreate("a", needs("b"), { as: "text" }),
      cache.getOrCreate("b", needs("a"), { as: "text" }),
    ];
    for (const built of await Promise.all(calls)) t.ok(built.startsWith("alone"), built);
    t.ok(performance.now() - started < 10_000, "the timeout of the wait ends it");
  },

  "builds of two tabs that need each other end": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    const both = gate();
    let begun = 0;
    const needs = (cache, other) => async () => {
      if (++begun === 2) both.open();
      await both.opened;
      return `${await cache.getOrCreate(other, () => "alone", { as: "text", waitMs: 300 })}!`;
    };
    const started = performance.now();
    const calls = [
      one.getOrCreate("a", needs(one, "b"), { as: "text" }),
      two.getOrCreate("b", needs(two, "a"), { as: "text" }),
    ];
    for (const built of await Promise.all(calls)) t.ok(built.startsWith("alone"), built);
    t.ok(performance.now() - started < 10_000, "the timeout of the wait ends it");
  },

  "a wait ends if the build makes no progress": async (t) => {
    const name = t.database();
    const [one, two] = [await t.open({ name }), await t.open({ name })];
    const { open, opened } = gate();
    let begun = false;
    const late = () => {
      begun = true;
      return opened.then(() => "late");
    };
    const stuck = one.getOrCreate("key", late, { as: "text" });
    await until(t, () => begun);
    const other = { as: "text", waitMs: 100 };
    t.equal(await one.getOrCreate("key", () => "alone", other), "alone", "in the same tab");
    await one.delete("key");
    t.equal(await two.getOrCreate("key", () => "alone too", other), "alone too", "in another");
    await one.delete("key");
    open();
    t.equal(await stuck, "late");

    const lively = one.getOrCreate("lively", async ({ onProgress }) => {
      for (let n = 0; n < 40; n++) {
        await t.sleep(50);
        onProgress(n);
      }
      return "lively";
    });
    // Shorter than the build, and longer than a busy machine lets a timer or a disk wait.
    const waits = await one.getOrCreate("lively", () => "alone", { as: "text", waitMs: 1500 });
    t.equal(waits, "lively");
    await lively;
  },

  "without Web Locks the tab builds once by itself": async (t) => {
    const cache = await t.open();
    const prototype = Object.getPrototypeOf(navigator);
    const locks = Object.getOwnPropertyDescriptor(prototype, "locks");
    t.after(() => Object.defineProperty(prototype, "locks", locks));
    Object.defineProperty(prototype, "locks", { get: () => undefined, configurable: true });
    let builds = 0;
    const build = async () => `${++builds}`;
    const calls = [1, 2, 3].map(() => cache.getOrCreate("key", build, { as: "text" }));
    t.equal(await Promise.all(calls), ["1", "1", "1"]);
  },

  "a build lets go of its locks, however it ends": async (t) => {
    const cache = await t.open();
    const inner = () => cache.getOrCreate("inner", () => "x");
    await cache.getOrCreate("outer", inner);
    await t.rejects(
      cache.getOrCreate("bad", () => Promise.reject(new TypeError("no"))),
      "TypeError",
    );
    await t.sleep(20);
    const { held } = await navigator.locks.query();
    t.equal(
      held.filter(({ name }) => name.startsWith("warmstart:") && name.includes(cache.name)),
      [],
    );
  },
};
