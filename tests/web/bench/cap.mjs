// What a put costs where each one evicts: it must not grow with the number of entries.

import { longer } from "./rows.mjs";
import { measure, Scene } from "./scene.mjs";

const [FEW, MANY] = [100, 5000];

/** How much longer a put may take with 5,000 entries than with 100. */
const LONGER = 1.5;

export async function cap({ quick }) {
  const samples = await Scene.play(async (scene) => {
    return measure(await scene.page(), "cap.js", "put", { counts: [FEW, MANY], rounds: quick ? 2 : 5, puts: 64 });
  });
  const [theirs, ours] = [FEW, MANY].map((count) => samples.map((sample) => sample[count] / 64));
  return [longer(`4KiB/write/one/at_the_cap/${MANY}_entries`, { ours, theirs, against: `${FEW} entries`, bound: LONGER })];
}
