/** Measures the phases from an empty tab to the first answer, and reports their progress to the page. */
export class Phases {
  /** Milliseconds by phase, and `total`, since the visit began. */
  times = {};
  #origin;
  #tell;

  /** @param origin the beginning of the visit, in milliseconds since 1970 */
  constructor(origin, tell) {
    this.#origin = origin;
    this.#tell = tell;
  }

  /** Milliseconds since the visit began. */
  now() {
    return performance.timeOrigin + performance.now() - this.#origin;
  }

  /** Runs one phase. `work` receives a function to report progress with: (note, loaded, total). */
  async run(name, work) {
    const begun = performance.now();
    let told = 0;
    const progress = (note, loaded, total) => {
      const now = performance.now();
      if (now - told < 50 && loaded !== total) return;
      told = now;
      this.#tell({ type: "phase", name, state: "running", note, loaded, total });
    };
    progress("");
    const result = await work(progress);
    this.times[name] = performance.now() - begun;
    this.times.total = this.now();
    this.#tell({ type: "phase", name, state: "done", ms: this.times[name] });
    return result;
  }
}
