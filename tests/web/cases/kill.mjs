// The browser is killed while it writes: acknowledged values survive, and all stored values are intact.

export const deep = true;
export const modes = ["default", "sqlite"];
export const timeout = 240_000;

/** How many acknowledged writes each round waits for, and how many milliseconds more it lets pass. */
const ROUNDS = [
  { acknowledged: 1, more: 0 },
  { acknowledged: 40, more: 7 },
  { acknowledged: 90, more: 61 },
];

const LARGE = 16 << 20;

/** How many large values a round writes at most: what is written has to fit on a small disk. */
const LARGE_VALUES = 4;

/** In bytes, more than all rounds write. The default quota depends on the free space of the disk. */
const QUOTA = 1 << 30;

export const cases = {
  "nothing that was acknowledged is lost, and nothing is torn": async (t) => {
    const acknowledged = listen(t.server);
    let began = { small: 0, large: 0 };
    for (const [round, { acknowledged: enough, more }] of ROUNDS.entries()) {
      const browser = await t.launch();
      const page = await t.page(browser);
      await browser.quota(page, QUOTA);
      const before = acknowledged.count();
      // Never comes back: the browser dies first.
      const writes = page.evaluate(write, { round, large: LARGE, most: LARGE_VALUES }).catch(() => undefined);
      await acknowledged.until(() => acknowledged.count() >= before + enough && acknowledged.of(`large-${round}`) > 0);
      await new Promise((resolve) => setTimeout(resolve, more));
      await browser.kill();
      await writes;
      began = { small: began.small + acknowledged.of(`small-${round}`), large: began.large + acknowledged.of(`large-${round}`) };
    }
    t.equal(acknowledged.of("evicted"), 0, "evictions for want of space: does the disk of TMPDIR have 1 GiB free?");
    t.ok(began.small > 60 && began.large >= ROUNDS.length, "small and large values were written");

    const browser = await t.launch();
    const page = await t.page(browser);
    await browser.quota(page, QUOTA);
    const found = await page.evaluate(read, { names: acknowledged.names(), large: LARGE, rounds: ROUNDS.length });
    t.equal(found.lost, [], "acknowledged and lost");
    t.equal(found.torn, [], "torn");
    t.equal(found.misses, {}, "damage that was counted");
    t.equal(found.entries, found.records, "every record of the database is accounted for");
    t.ok(found.bytes > began.large * LARGE, "the bytes are accounted for");

    const cap = 3 * LARGE;
    const capped = await page.evaluate(shrink, cap);
    t.ok(capped.bytes <= cap && capped.held <= cap, `${JSON.stringify(capped)} within ${cap}`);
    t.equal(capped.entries, capped.records, "what was evicted is gone");
  },
};

/** Writes small values four at a time and large ones beside them, and tells the server what was acknowledged. */
async function write({ round, large, most }) {
  const cache = await warmstart.open({ name: "killed" });
  const tell = (name) => fetch(`/acknowledge/${name}`, { method: "POST" });
  cache.events.on("evicted", ({ count }) => tell(`evicted-${round}-${count}`));
  const put = async (kind, at, size) => {
    const name = `${kind}-${round}-${at}`;
    if (await cache.put(name, kit.bytes(size, at))) await tell(name);
  };
  const run = async (kind, from, step, end, size) => {
    for (let at = from; at < end; at += step) await put(kind, at, size(at));
  };
  const small = [0, 1, 2, 3].map((from) => run("small", from, 4, Infinity, (at) => 100 + (at % 40) * 1000));
  await Promise.all([...small, run("large", 0, 1, most, () => large)]);
}

/** Reads what was acknowledged, and what else is there. */
async function read({ names, large, rounds }) {
  const cache = await warmstart.open({ name: "killed" });
  const size = (kind, at) => (kind === "large" ? large : 100 + (at % 40) * 1000);
  const lost = [];
  const torn = [];
  const look = async (name, must) => {
    const [kind, , at] = name.split("-");
    const value = await cache.get(name);
    if (value === undefined) return void (must && lost.push(name));
    const expected = kit.bytes(size(kind, Number(at)), Number(at));
    if (value.length !== expected.length || value.some((byte, index) => byte !== expected[index])) torn.push(name);
    return true;
  };
  for (const name of names) await look(name, true);
  const { misses } = await cache.stats();
  // What was under way may be there or not, but not in part.
  for (const kind of ["small", "large"]) {
    for (let round = 0; round < rounds; round += 1) {
      const mine = names.filter((name) => name.startsWith(`${kind}-${round}-`)).map((name) => Number(name.split("-")[2]));
      const last = Math.max(-1, ...mine);
      for (let at = last + 1; at <= last + 8; at += 1) await look(`${kind}-${round}-${at}`, false);
    }
  }
  const found = await cache.stats();
  delete found.misses.absent;
  await cache.flush();
  const { entries, bytes } = await cache.stats();
  await cache.close();
  return { lost, torn, misses: { ...misses, ...found.misses }, entries, bytes, records: (await raw.records("killed")).length };
}

/** Opens the same with a cap, and says what is left. */
async function shrink(cap) {
  const cache = await warmstart.open({ name: "killed", maxBytes: cap });
  await cache.put("one more", "one more");
  await cache.flush();
  const { entries, bytes } = await cache.stats();
  const held = (await cache.entries()).reduce((sum, entry) => sum + entry.storedSize, 0);
  await cache.close();
  return { entries, bytes, held, records: (await raw.records("killed")).length };
}

/** Hears what pages acknowledge. */
function listen(server) {
  const names = new Set();
  let heard = () => undefined;
  server.mount("/acknowledge/", (request, response, url) => {
    names.add(url.pathname.slice("/acknowledge/".length));
    response.end();
    heard();
  });
  return {
    count: () => names.size,
    of: (start) => [...names].filter((name) => name.startsWith(`${start}-`)).length,
    names: () => [...names],
    until: (holds) =>
      new Promise((resolve) => {
        heard = () => holds() && resolve();
        heard();
      }),
  };
}
