// Plays one scenario on the npm package: only through what a page can call, and raw IndexedDB for damage.

import { altered, eachDamage } from "./damage.js";
import { Raw } from "./raw.js";
import { fromHex, keyOf, known, limitsOf, payloadOf, sizeOf, textOf, toHex } from "./words.js";

const FIRST = "first";

/** Misses for which the entry itself is bad: `MissReason::is_damage`. */
const DAMAGE = ["truncated", "foreign", "malformed", "checksum_mismatch", "key_mismatch"];

export class Player {
  #t;
  #scenario;
  #mode;
  #name;
  #raw;
  #caches = new Map();
  /** The handle that the steps are done with. */
  #on = FIRST;
  /** The round of the innermost repetition. */
  #round = 0;
  /** The damage whose turn it is. */
  #turn = undefined;
  #clock = undefined;
  /** What was put last as each version of each key. */
  #versions = new Map();

  constructor(t, scenario, mode) {
    known("a scenario", ["name", "proves", "needs", "limits", "clock", "exact", "steps"], scenario);
    this.#t = t;
    this.#scenario = scenario;
    this.#mode = mode;
    this.#name = t.database();
    this.#raw = new Raw(this.#name);
  }

  async run() {
    const { now } = Date;
    this.#t.after(() => {
      Date.now = now;
      this.#raw.close();
    });
    if (this.#scenario.clock !== undefined) this.clock(this.#scenario.clock);
    await this.#open(FIRST);
    this.#t.equal(this.#cache.backend, this.#mode.memory ? "memory" : "indexeddb");
    await this.#play(this.#scenario.steps);
  }

  async #play(steps) {
    for (const step of steps) {
      const [[word, what], ...others] = Object.entries(step);
      if (!WORDS.includes(word) || others.length > 0) throw new Error(`no step: ${JSON.stringify(step)}`);
      try {
        await this[word](what);
      } catch (error) {
        if (error.step) throw error;
        const turn = this.#turn ? ` after ${JSON.stringify(this.#turn)}` : "";
        const where = `step ${JSON.stringify(step)} in round ${this.#round}${turn}`;
        throw Object.assign(new Error(`${error.message}: ${where}`, { cause: error }), { step });
      }
    }
  }

  async #open(handle) {
    const bounds = limitsOf(this.#scenario.limits ?? {}, this.#mode);
    const options = { name: this.#name, memory: this.#mode.memory, ...bounds };
    this.#caches.set(handle, await this.#t.open(options));
  }

  get #cache() {
    return this.#caches.get(this.#on);
  }

  #key(key) {
    return keyOf(key, this.#round, this.#t.warmstart);
  }

  #names(keys) {
    return keys.map((key) => toHex(this.#key(key).bytes));
  }

  #payload(key, version, size) {
    return payloadOf(key.bytes, version, sizeOf(size, this.#round, this.#mode, this.#scenario.exact));
  }

  #remember(key, version, payload, label) {
    const created = this.#clock;
    const put = { payload, label, created, recipe: key.input.domain };
    this.#versions.set(`${toHex(key.bytes)} ${version}`, put);
  }

  #version(key, version) {
    const put = this.#versions.get(`${toHex(key.bytes)} ${version}`);
    if (!put) throw new Error("what is found was put before");
    return put;
  }

  /** What the call gives, and what was counted meanwhile. */
  async #counting(call) {
    const before = await this.#cache.stats();
    const result = await call();
    const after = await this.#cache.stats();
    const since = (name) =>
      Object.fromEntries(
        Object.entries(after[name])
          .map(([reason, n]) => [reason, n - (before[name][reason] ?? 0)])
          .filter(([, n]) => n > 0),
      );
    return {
      result,
      misses: since("misses"),
      refusals: since("refusals"),
      hits: after.hits - before.hits,
      evictions: after.evictions - before.evictions,
      stats: after,
    };
  }

  async put(put) {
    known("put", ["key", "version", "size", "label", "evicts", "refused"], put);
    const key = this.#key(put.key);
    const version = put.version === "round" ? this.#round : (put.version ?? 1);
    const payload = this.#payload(key, version, put.size);
    const label = put.label === undefined ? undefined : textOf(put.label);
    const { result, refusals, evictions, stats } = await this.#counting(() =>
      this.#cache.put(key.input, payload, label === undefined ? {} : { label }),
    );
    this.#t.equal(result, put.refused === undefined);
    this.#t.equal(refusals, put.refused === undefined ? {} : { [put.refused]: 1 });
    if (put.evicts !== undefined) this.#t.equal(evictions, put.evicts, "evicted");
    if (result) this.#remember(key, version, payload, label);
    const { maxBytes = Infinity, maxEntries = Infinity } = limitsOf(this.#scenario.limits ?? {}, this.#mode);
    this.#t.ok(stats.bytes <= maxBytes && stats.entries <= maxEntries, "more than the limits");
  }

  async get(get) {
    known("get", ["key", "version", "misses"], get);
    const key = this.#key(get.key);
    const { result, misses, hits } = await this.#counting(() => this.#cache.get(key.input));
    if (get.misses === undefined) {
      const version = get.version === "round" ? this.#round : get.version;
      this.#t.equal(result, this.#version(key, version).payload);
      this.#t.equal({ hits, misses }, { hits: 1, misses: {} });
      return;
    }
    this.#t.equal(result, undefined, "a miss");
    if (get.misses === "damage") {
      this.#t.equal(Object.values(misses), [1]);
      this.#t.ok(DAMAGE.includes(Object.keys(misses)[0]), Object.keys(misses)[0]);
    } else {
      this.#t.equal({ hits, misses }, { hits: 0, misses: { [get.misses]: 1 } });
    }
  }

  async has({ key, is }) {
    this.#t.equal(await this.#cache.has(this.#key(key).input), is);
  }

  async held({ of, are }) {
    const answers = await Promise.all(of.map((key) => this.#cache.has(this.#key(key).input)));
    const held = of.filter((_, at) => answers[at]);
    this.#t.equal(this.#names(held), this.#names(are));
  }

  async remove({ key, was }) {
    this.#t.equal(await this.#cache.delete(this.#key(key).input), was);
  }

  async len(len) {
    this.#t.equal((await this.#cache.stats()).entries, len);
  }

  async clear() {
    await this.#cache.clear();
  }

  async close() {
    await this.#cache.close();
  }

  async reopen(how) {
    this.#t.ok(["after_close", "after_drop"].includes(how), how);
    if (this.#mode.memory) return;
    await this.#cache.close();
    await this.#open(this.#on);
  }

  async open({ handle }) {
    await this.#open(handle);
  }

  async drop({ handle }) {
    await this.#caches.get(handle).close();
    this.#caches.delete(handle);
  }

  async on({ handle, steps }) {
    const before = this.#on;
    this.#on = handle;
    await this.#play(steps);
    this.#on = before;
  }

  /** Most calls cannot say why; what they answer is that there is nothing. */
  async refuses({ reason, key, calls }) {
    const { input } = this.#key(key);
    const cache = this.#cache;
    const t = this.#t;
    const refused = {
      get: async () => this.get({ key, misses: reason }),
      put: async () => this.put({ key, refused: reason }),
      remove: async () => t.equal(await cache.delete(input), false),
      has: async () => t.equal(await cache.has(input), false),
      len: async () => t.equal((await cache.entries()).length, 0),
      clear: async () => t.equal(await cache.clear(), undefined),
      entries: async () => t.equal(await cache.entries(), []),
      nearest: async () => {
        const { hit, reason: why, nearest } = await cache.explain(t.warmstart.key("d", 1, { "field 0": 2 }));
        t.equal({ hit, why, nearest }, { hit: false, why: reason, nearest: undefined });
      },
      prune: async () => t.equal(await cache.resize({ maxBytes: 0 }), undefined),
      // A page keeps no counts for others.
      reports: async () => undefined,
    };
    for (const call of calls) await refused[call]();
  }

  clock(ms) {
    this.#clock = ms;
    Date.now = () => ms;
  }

  async repeat({ times, steps }) {
    const before = this.#round;
    for (let round = 0; round < times; round += 1) {
      this.#round = round;
      await this.#play(steps);
    }
    this.#round = before;
  }

  async damage({ key, how }) {
    const { bytes: name } = this.#key(key);
    if (how.copy_of !== undefined) return this.#raw.copy(name, this.#key(how.copy_of).bytes);
    const { bytes } = await this.#raw.read(name);
    return this.#raw.write(name, altered(bytes, how === "each" ? this.#turn : how));
  }

  async each_damage({ key, kind, steps }) {
    const { bytes, head } = await this.#raw.read(this.#key(key).bytes);
    for (const how of eachDamage(kind, bytes.length, head)) {
      this.#turn = how;
      await this.#play(steps);
    }
    this.#turn = undefined;
  }

  async stored({ key, hex }) {
    const { bytes } = await this.#raw.read(this.#key(key).bytes);
    this.#t.equal(bytes, fromHex(hex));
  }

  async verify({ whole, damaged = [] }) {
    const found = await this.#cache.verify();
    const named = ({ key, reason }) => `${key === undefined ? "?" : toHex(key)} ${reason}`;
    const isNamed = found.every(({ key }) => key !== undefined);
    const told = ({ key, reason }) => `${isNamed ? this.#names([key])[0] : "?"} ${reason}`;
    this.#t.equal(found.map(named).sort(), damaged.map(told).sort());
    this.#t.equal((await this.#list()).map(({ key }) => toHex(key)).sort(), this.#names(whole).sort());
  }

  async entries(told) {
    const list = await this.#list();
    this.#t.equal(list.map(({ key }) => toHex(key)), this.#names(told.map(({ key }) => key)));
    for (const [at, entry] of list.entries()) {
      if (told[at].version === undefined) continue;
      const { payload, label, created, recipe } = this.#version(this.#key(told[at].key), told[at].version);
      this.#t.equal(entry.size, payload.length, "size");
      this.#t.equal(entry.label, label, "label");
      this.#t.equal(entry.recipe?.domain, recipe, "recipe");
      if (created !== undefined) this.#t.equal(entry.created.getTime(), created, "created");
      // A store counts what it keeps, and at most a little more.
      const least = payload.length + entry.key.length + (label?.length ?? 0);
      const { storedSize } = entry;
      this.#t.ok(storedSize >= least && storedSize < least * 1.02 + 1024, `${storedSize} bytes`);
    }
  }

  /** All entries, which add up to what is counted. */
  async #list() {
    const list = await this.#cache.entries();
    const { entries, bytes } = await this.#cache.stats();
    const sum = list.reduce((total, { storedSize }) => total + storedSize, 0);
    this.#t.equal({ entries, bytes }, { entries: list.length, bytes: sum }, "what is counted");
    return list;
  }

  async nearest({ to, is }) {
    const { nearest } = await this.#cache.explain(this.#key(to).input);
    this.#t.equal(nearest && toHex(nearest.key), is === null ? undefined : this.#names([is])[0]);
    if (nearest) this.#t.ok(nearest.changes.length > 0, "it differs in something");
  }

  async prune({ to, removes }) {
    const before = (await this.#list()).length;
    await this.#cache.resize(limitsOf(to, this.#mode));
    this.#t.equal(before - (await this.#list()).length, removes);
    await this.#cache.resize(limitsOf(this.#scenario.limits ?? {}, this.#mode));
  }

  async build(build) {
    known("build", ["key", "version", "size", "misses", "takes_ms", "fails", "refused"], build);
    const key = this.#key(build.key);
    const payload = this.#payload(key, build.version, build.size);
    const failure = new Error("it fails, as it is told to");
    let builds = 0;
    const make = async () => {
      builds += 1;
      if (build.takes_ms) await this.#t.sleep(build.takes_ms);
      if (build.fails) throw failure;
      return payload;
    };
    const { result, misses, refusals } = await this.#counting(() =>
      this.#cache.getOrCreate(key.input, make).catch((error) => error),
    );
    this.#t.equal(builds, 1, "builds");
    this.#t.equal(result, build.fails ? failure : payload);
    this.#t.equal(misses, { [build.misses]: 1 });
    this.#t.equal(refusals, build.refused === undefined ? {} : { [build.refused]: 1 });
    this.#remember(key, build.version, payload);
  }

  async find({ key, version }) {
    const { input, bytes } = this.#key(key);
    const built = () => {
      throw new Error("it is stored");
    };
    const { result, hits } = await this.#counting(() => this.#cache.getOrCreate(input, built));
    this.#t.equal(result, this.#version({ bytes }, version).payload);
    this.#t.equal(hits, 1);
  }

  async statistics(counts) {
    const stats = await this.#cache.stats();
    const found = {
      ...stats,
      saved_ms: stats.savedMs,
      standards_read: Math.floor(stats.bytesRead / this.#mode.standard),
      standards_written: Math.floor(stats.bytesWritten / this.#mode.standard),
    };
    known("statistics", STATISTICS, counts);
    for (const [name, count] of Object.entries(counts)) {
      if (count.at_least === undefined) this.#t.equal(found[name], count, name);
      else this.#t.ok(found[name] >= count.at_least, `${name} is ${found[name]}`);
    }
  }
}

/** The steps there are. */
const WORDS = [
  "put", "get", "has", "held", "remove", "len", "clear", "close", "reopen", "open", "drop", "on", "refuses",
  "clock", "repeat", "damage", "each_damage", "stored", "verify", "entries", "nearest", "prune", "build",
  "find", "statistics",
];

/** What is counted. */
const STATISTICS = [
  "hits", "misses", "refusals", "builds", "shared", "evictions", "saved_ms", "standards_read",
  "standards_written",
];
