// Ids for kernels and tasks: the same as in Rust, and honest where several claim one.

/** Two kernels whose hashes are the same. */
const [ONE, OTHER] = ["k10823927", "k21347034"];

const names = (rows) => rows.map(({ kernel, task }) => `${kernel} ${task}`);

export const tests = {
  "an id is the one that Rust gives": (t) => {
    const registry = new t.warmstart.Registry();
    t.equal(registry.register("compute_grad", 3, undefined), 0xd5619350);
    t.equal(registry.idOf("compute_grad", 3), 0xd5619350);
    t.equal(registry.idOf("compute_grad", 4), undefined);
  },
  "an id leads to its kernel, task and value": (t) => {
    const registry = new t.warmstart.Registry();
    const id = registry.register("blur", -7, "value");
    t.equal(registry.resolve(id), [{ id, kernel: "blur", task: -7, value: "value" }]);
    t.equal(registry.resolve(id + 1), []);
    t.equal(registry.resolve(0), []);
  },
  "who registers again keeps the id and gets the new value": (t) => {
    const registry = new t.warmstart.Registry();
    const id = registry.register("blur", 0, 1);
    t.equal(registry.register("blur", 0, 2), id);
    t.equal(registry.size, 1);
    t.equal(registry.resolve(id)[0].value, 2);
  },
  "a hash that is taken is not given twice": (t) => {
    const registry = new t.warmstart.Registry();
    const id = registry.register(ONE, 0, 1);
    t.equal(registry.register(OTHER, 0, 2), id + 1);
    t.equal(names(registry.resolve(id)), [`${ONE} 0`]);
    t.equal(names(registry.resolve(id + 1)), [`${OTHER} 0`]);
  },
  "an id that two processes gave away is shared, and verified by the name": (t) => {
    const registry = new t.warmstart.Registry();
    const id = new t.warmstart.Registry().register(ONE, 0, 0);
    t.equal(registry.adopt(id, OTHER, 0, "other"), "alone");
    t.equal(registry.adopt(id, ONE, 0, "one"), "shared");
    t.equal(names(registry.resolve(id)), [`${ONE} 0`, `${OTHER} 0`], "in the order of their names");
    t.equal(registry.verify(id, OTHER, 0).value, "other");
    t.equal(registry.verify(id, ONE, 0).value, "one");
    t.equal(registry.verify(id, ONE, 1), undefined);
    t.equal(registry.verify(id + 1, ONE, 0), undefined);
  },
  "what is adopted again gets the new value and no second row": (t) => {
    const registry = new t.warmstart.Registry();
    const id = new t.warmstart.Registry().register("blur", 0, 0);
    registry.adopt(id, "blur", 0, 1);
    registry.adopt(id, "blur", 0, 2);
    t.equal([registry.size, registry.verify(id, "blur", 0).value], [1, 2]);
  },
  "an id that cannot be the kernel's is refused": async (t) => {
    const registry = new t.warmstart.Registry();
    await t.rejects(() => registry.adopt(12345, "blur", 0, 0), "invalid_argument");
    t.equal(registry.size, 0);
  },
  "a removed id is forgotten, and its place is used again": (t) => {
    const registry = new t.warmstart.Registry();
    const blur = registry.register("blur", 0, "blur");
    const sharpen = registry.register("sharpen", 0, "sharpen");
    t.equal(registry.remove(blur, "sharpen", 0), undefined, "another name");
    t.equal(registry.remove(blur, "blur", 0).value, "blur");
    t.equal([registry.resolve(blur), registry.idOf("blur", 0), registry.size], [[], undefined, 1]);
    const grow = registry.register("grow", 0, "grow");
    t.equal(registry.resolve(grow)[0].value, "grow");
    t.equal(registry.resolve(sharpen)[0].value, "sharpen");
    t.equal(names(registry.entries()).sort(), ["grow 0", "sharpen 0"]);
  },
  "mistakes are refused": async (t) => {
    const registry = new t.warmstart.Registry();
    await t.rejects(() => registry.register("", 0, 0), "invalid_argument");
    await t.rejects(() => registry.register("blur", 2 ** 31, 0), "invalid_argument");
    await t.rejects(() => registry.register("blur", 0.5, 0), "invalid_argument");
    await t.rejects(() => registry.adopt(0, "blur", 0, 0), "invalid_argument");
  },
};
