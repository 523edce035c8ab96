// What a served pipeline costs a runtime on its second visit, and what is written about it.

import { figure } from "./rows.mjs";
import { measure, Scene } from "./scene.mjs";

const COUNT = 500;

/** The longest that a look-up may take, in microseconds. */
const LOOK_UP_US = 20;

/** The most that a visit may write in order to note its uses. */
const WRITTEN = 1 << 10;

export async function pipelines({ quick }) {
  const { sync, async: later, written } = await Scene.play(async (scene) => {
    await measure(await scene.page(), "pipelines.js", "record", { count: COUNT });
    return measure(await scene.page(), "pipelines.js", "use", { count: COUNT, passes: quick ? 2 : 5 });
  });
  return [
    figure(`pipelines/${COUNT}/look_up`, { samples: sync, unit: "us", bound: LOOK_UP_US }),
    figure(`pipelines/${COUNT}/look_up/async`, { samples: later, unit: "us", bound: LOOK_UP_US }),
    figure(`pipelines/${COUNT}/written_by_a_visit`, { samples: [written], unit: "bytes", bound: WRITTEN }),
  ];
}
