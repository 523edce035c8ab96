// What was found: rows, as a table and as JSON. Their fields are those of the other benchmarks.

/**
 * How many times better the subject is than the peer: in each round, how much longer the peer took; the median of that.
 * `ours` and `theirs` are milliseconds, in the order of the rounds, in which `amount` of what `unit` names was done.
 */
export function compared(name, { ours, theirs, against, unit = "ms", amount, bound }) {
  const ratios = ours.map((took, round) => theirs[round] / took).sort((one, other) => one - other);
  const shown = (took) => (amount === undefined ? median(took) : (amount * 1000) / median(took));
  const figures = { ours: shown(ours), theirs: shown(theirs), measured: unit };
  const range = { low: quantile(ratios, 0.25), high: quantile(ratios, 0.75) };
  const value = median(ratios);
  return { name, value, unit: "ratio", against, ...judged(value, ">=", bound), ...figures, ...range };
}

/** One figure, in its unit; of several samples the median. */
export function figure(name, { samples, unit, against = "none", bound, theirs }) {
  const sorted = [...samples].sort((one, other) => one - other);
  const range = samples.length > 1 ? { low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) } : {};
  const figures = { ours: median(samples), ...(theirs ? { theirs: median(theirs) } : {}), measured: unit };
  const value = median(samples);
  return { name, value, unit, against, ...judged(value, "<=", bound), ...figures, ...range };
}

/** How many times longer the subject took than something else: in each round; the median of that. Both are milliseconds. */
export function longer(name, { ours, theirs, against, bound }) {
  const row = figure(name, { samples: ours.map((took, round) => took / theirs[round]), unit: "ratio", against, bound });
  return { ...row, ours: median(ours), theirs: median(theirs), measured: "ms" };
}

/** What was not measured. It says why. */
export function missing(name, why) {
  return { name, value: NaN, unit: "not measured", against: why, ...judged(NaN, ">=", undefined) };
}

/** The middle value; of an even number the mean of the two in the middle. */
function median(values) {
  return quantile([...values].sort((one, other) => one - other), 0.5);
}

/** The rows for a person. */
export function table(rows) {
  const lines = rows.map((row) => [
    row.name,
    readable(row.ours),
    readable(row.theirs),
    row.measured ?? "",
    row.against,
    readable(row.value),
    row.unit,
    row.bound === null ? "" : `${row.sense} ${row.bound}`,
    row.low === undefined ? "" : `${readable(row.low)} to ${readable(row.high)}`,
    row.bound === null ? "" : row.holds ? "holds" : "DOES NOT HOLD",
  ]);
  const head = ["row", "ours", "theirs", "in", "against", "value", "unit", "bound", "half of all", ""];
  const widths = head.map((text, column) => Math.max(...[head, ...lines].map((line) => line[column].length)));
  const padded = (text, column) =>
    [1, 2, 5].includes(column) ? text.padStart(widths[column]) : text.padEnd(widths[column]);
  const drawn = (line) => `│ ${line.map(padded).join("  ")} │`;
  const rule = (left, fill, right) => left + fill.repeat(drawn(head).length - 2) + right;
  const top = [rule("┌", "─", "┐"), drawn(head), rule("╞", "═", "╡")];
  return [...top, ...lines.map(drawn), rule("└", "─", "┘")].join("\n");
}

/** The rows for a program: `{"bench":NAME,"rows":[..]}` in one line. */
export function json(bench, rows) {
  return `${JSON.stringify({ bench, rows })}\n`;
}

/** A value that is no number holds nowhere. */
function judged(value, sense, bound = null) {
  return { bound, sense, holds: bound === null || (sense === "<=" ? value <= bound : value >= bound) };
}

function quantile(sorted, part) {
  const at = (sorted.length - 1) * part;
  const [below, above] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return below + (above - below) * (at % 1);
}

/** Four digits or so: more would be noise. */
function readable(value) {
  if (value === undefined) return "";
  if (Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}
