// The launch memo: a result is taken again until something that it was computed from moves.

/** A memo with a field, two arrays, and a kernel that counts how often it is computed. */
function made(t) {
  const memo = new t.warmstart.LaunchMemo();
  const tile = memo.field(8);
  const [one, other] = [memo.array([64, 32], "one"), memo.array([64, 16], "other")];
  const computed = { times: 0 };
  const groups = memo.register((read) => {
    computed.times++;
    return Math.ceil(read.extent(0, 0) / read.field(tile));
  });
  return { memo, tile, one, other, groups, computed };
}

export const tests = {
  "a launch that nothing moved for is a hit": (t) => {
    const { memo, groups, one, computed } = made(t);
    t.equal(memo.launch(groups, [one]), { value: 8, hit: false, missCause: { reason: "first" } });
    t.equal(memo.launch(groups, [one]), { value: 8, hit: true });
    t.equal([computed.times, memo.stats], [1, { hits: 1, misses: 1 }]);
  },
  "a field that is written is computed from again": (t) => {
    const { memo, groups, one, tile } = made(t);
    memo.launch(groups, [one]);
    tile.value = 16;
    t.equal(memo.explain(groups, [one]), { reason: "moved", moved: "field 0 was written: 0 writes are now 1" });
    const { value, hit, missCause } = memo.launch(groups, [one]);
    t.equal([value, hit, missCause.reason], [4, false, "moved"]);
    tile.value = 16;
    t.ok(!memo.launch(groups, [one]).hit, "a write counts, whatever is written");
  },
  "a field that was not read may be written": (t) => {
    const { memo, groups, one } = made(t);
    const unread = memo.field(0);
    memo.launch(groups, [one]);
    unread.value = 1;
    t.ok(memo.launch(groups, [one]).hit);
  },
  "who read an extent alone depends on that extent alone": (t) => {
    const { memo, groups, one, other } = made(t);
    memo.launch(groups, [one]);
    one.touch();
    t.ok(memo.launch(groups, [one]).hit, "the contents");
    one.reshape([64, 99]);
    t.ok(memo.launch(groups, [one]).hit, "the other axis");
    t.ok(memo.launch(groups, [other]).hit, "another array that is as long");
    one.reshape([65, 99]);
    t.equal(memo.explain(groups, [one]), { reason: "moved", moved: "axis 0 of argument 0 was 64 and is 65" });
    t.equal(memo.launch(groups, [one]).value, 9);
  },
  "who read an array depends on its contents and on which it is": (t) => {
    const { memo, one, other } = made(t);
    const kernel = memo.register((read) => read.array(0)?.value);
    t.equal(memo.launch(kernel, [one]).value, "one");
    t.ok(memo.launch(kernel, [one]).hit);
    t.equal(memo.explain(kernel, [other]).moved, "argument 0 is another array");
    t.equal(memo.launch(kernel, [other]).value, "other");
    other.touch();
    t.equal(memo.explain(kernel, [other]).moved, "argument 0 was written: 0 writes are now 1");
    t.equal(memo.explain(kernel, []).moved, "argument 0 is not bound any more");
  },
  "an array that was freed is never taken for the next one": async (t) => {
    const { memo, groups, one } = made(t);
    const kernel = memo.register((read) => read.array(0)?.value);
    memo.launch(kernel, [one]);
    memo.launch(groups, [one]);
    one.free();
    t.equal(memo.launch(groups, [one]).value, NaN, "it has no axis any more");
    t.equal(memo.launch(kernel, [one]).value, undefined);
    const next = memo.array([64, 32], "next");
    t.equal(memo.launch(kernel, [next]).value, "next");
    await t.rejects(() => one.touch(), "invalid_argument");
  },
  "what reads nothing is not kept, and says so": (t) => {
    const { memo } = made(t);
    const kernel = memo.register(() => 7);
    t.equal(memo.launch(kernel).value, 7);
    t.equal(memo.launch(kernel), { value: 7, hit: false, missCause: { reason: "nothing_read" } });
  },
  "what is written while it is computed from is not kept": (t) => {
    const { memo, tile } = made(t);
    const kernel = memo.register((read) => {
      const seen = read.field(tile);
      if (seen === 8) tile.value = 9;
      return seen;
    });
    t.equal(memo.launch(kernel).value, 8);
    t.equal(memo.explain(kernel), { reason: "concurrent_write" });
    t.equal(memo.launch(kernel).value, 9);
    t.ok(memo.launch(kernel).hit);
  },
  "what throws is passed on, and what was kept stays": (t) => {
    const { memo, tile } = made(t);
    const kernel = memo.register((read) => {
      if (read.field(tile) < 0) throw new RangeError("negative");
      return read.field(tile);
    });
    t.equal(memo.launch(kernel).value, 8);
    tile.value = -1;
    let thrown;
    try {
      memo.launch(kernel);
    } catch (error) {
      thrown = error;
    }
    t.ok(thrown instanceof RangeError);
    tile.value = 3;
    t.equal(memo.launch(kernel).value, 3);
  },
  "invalidating and removing forget": async (t) => {
    const { memo, groups, one } = made(t);
    memo.launch(groups, [one]);
    memo.invalidate(groups);
    t.equal(memo.explain(groups, [one]), { reason: "invalidated" });
    memo.launch(groups, [one]);
    memo.remove(groups);
    await t.rejects(() => memo.launch(groups, [one]), "invalid_argument");
    const next = memo.register((read) => read.extent(0, 1));
    t.equal(memo.launch(next, [one]), { value: 32, hit: false, missCause: { reason: "first" } });
  },
  "many kernels and fields do not disturb each other": (t) => {
    const memo = new t.warmstart.LaunchMemo();
    const fields = Array.from({ length: 50 }, (_, at) => memo.field(at));
    const kernels = fields.map((field, at) => memo.register((read) => read.field(field) + read.field(fields[at >> 1])));
    kernels.forEach((kernel, at) => t.equal(memo.launch(kernel).value, at + (at >> 1)));
    fields[10].value = 1000;
    const missed = kernels.flatMap((kernel, at) => (memo.launch(kernel).hit ? [] : [at]));
    t.equal(missed, [10, 20, 21]);
  },
  "mistakes are refused": async (t) => {
    const { memo, tile, one, groups } = made(t);
    const another = made(t);
    await t.rejects(() => another.memo.launch(groups, [one]), "invalid_argument");
    await t.rejects(() => another.memo.launch(another.groups, [one]), "invalid_argument");
    await t.rejects(() => memo.launch(memo.register((read) => read.field(another.tile))), "invalid_argument");
    await t.rejects(() => memo.launch(memo.register(async (read) => read.field(tile))), "invalid_argument");
    await t.rejects(() => memo.launch(memo.register(() => memo.launch(groups, [one]))), "invalid_argument");
    await t.rejects(() => memo.array([1.5]), "invalid_argument");
    let kept;
    memo.launch(memo.register((read) => (kept = read).field(tile)));
    await t.rejects(() => kept.field(tile), "invalid_argument");
  },
};
