// Tabs that put and remove the same keys, of which one is closed and then the browser is killed: what is found is current.

import { KEYS, Model } from "../current.js";

export const deep = true;
export const modes = ["default", "sqlite"];

const ROUNDS = 2;

export const cases = {
  "tabs find current values, also after kills": async (t) => {
    const model = new Model();
    const book = keep(t.server, model);
    for (let round = 0; round < ROUNDS; round += 1) {
      const browser = await t.launch();
      const tabs = [await t.page(browser), await t.page(browser), await t.page(browser)];
      const steps = tabs.map((tab, at) => tab.evaluate(work, { seed: 10 * round + at, keys: KEYS }).catch(() => undefined));
      await book.until(25 * (round * 2 + 1));
      await tabs[2].close();
      await book.until(25 * (round * 2 + 2));
      await browser.kill();
      await Promise.all(steps);
      t.equal(book.wrong, [], `in round ${round}`);
    }
    const page = await t.page(await t.launch());
    const began = model.now();
    const { values, entries, stored, misses } = await page.evaluate(look, KEYS);
    const ended = model.now();
    const lost = KEYS.filter((key, at) => !model.allows(key, values[at], began, ended));
    t.equal(lost, [], `at the end: ${JSON.stringify(values)}`);
    const left = values.filter((value) => value !== null).length;
    const absent = KEYS.length - left;
    t.equal({ entries, stored, misses }, { entries: left, stored: left, misses: absent > 0 ? { absent } : {} });
  },
};

/** What a tab does until it dies. The server is told before anything begins and after it ended. */
async function work({ seed, keys: KEYS }) {
  const { dice, valueOf } = await import("/tests/web/current.js");
  const random = dice(seed);
  const cache = await warmstart.open({ name: "stressed" });
  const tell = async (said) => (await fetch(`/book/?said=${encodeURIComponent(JSON.stringify(said))}`)).json();
  const some = () => KEYS.filter(() => random(2) === 0);
  const numberOf = (key, value) => {
    const number = value === undefined ? null : Number(value.split(":")[1]);
    return value === undefined || value === valueOf(key, number) ? number : "torn";
  };
  const loop = async () => {
    for (;;) {
      const what = random(10);
      const keys = what % 2 ? some() : [KEYS[random(KEYS.length)]];
      if (what < 4) {
        const { id, number } = await tell({ puts: keys });
        const did = await cache.putMany(keys.map((key) => [key, valueOf(key, number)]));
        await tell({ id, did });
      } else if (what < 8) {
        const { id } = await tell({ looks: keys });
        const found = await cache.getMany(keys, "text");
        await tell({ id, found: keys.map((key, at) => numberOf(key, found[at])) });
      } else {
        const { id } = await tell({ removes: [keys[0] ?? KEYS[0]] });
        await cache.delete(keys[0] ?? KEYS[0]);
        await tell({ id, did: [true] });
      }
    }
  };
  await Promise.all([loop(), loop()]);
}

async function look(KEYS) {
  const cache = await warmstart.open({ name: "stressed" });
  await cache.flush();
  const found = await cache.getMany(KEYS, "text");
  const values = found.map((value) => (value === undefined ? null : Number(value.split(":")[1])));
  const { entries, misses } = await cache.stats();
  return { values, entries, misses, stored: await raw.stored("stressed") };
}

/** Writes down what tabs say that they do. */
function keep(server, model) {
  const steps = new Map();
  const wrong = [];
  let heard = () => undefined;
  let last = 0;
  let ended = 0;
  const begin = ({ puts, removes, looks }) => {
    const [id, number] = [(last += 1), puts ? last : null];
    steps.set(id, looks ? { looks, began: model.now() } : { changes: model.begin(puts ?? removes, number) });
    return { id, number };
  };
  const end = ({ id, did, found }) => {
    const { looks, began, changes } = steps.get(id);
    ended += 1;
    if (changes) return void model.end(changes, did);
    const now = model.now();
    looks.forEach((key, at) => {
      if (!model.allows(key, found[at], began, now)) wrong.push(`${key} found ${found[at]} in step ${id}`);
    });
  };
  server.mount("/book/", (request, response, url) => {
    const said = JSON.parse(url.searchParams.get("said"));
    const answer = said.id === undefined ? begin(said) : end(said);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer ?? {}));
    heard();
  });
  return {
    wrong,
    until: (enough) =>
      new Promise((resolve) => {
        heard = () => ended >= enough && resolve();
        heard();
      }),
  };
}
