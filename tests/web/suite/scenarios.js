// Plays the scenarios of every store on the npm package: see tests/scenarios/README.md.

import { Player } from "../scenario/player.js";

const TOPICS = ["interface", "eviction", "damage", "inspect", "one_call"];

// A value up to 48 KiB is one record. A larger one is a head and parts, which is other code all the way down.
const MODES = {
  small: { standard: 8000, added: 0, memory: false },
  large: { standard: 100_000, added: 60_000, memory: false },
  memory: { standard: 8000, added: 0, memory: true },
};

// The browser lacks `heads`: it reads no entry to count it or to tell whether it exists.
const NEVER = ["heads"];
/** A store in memory is neither persistent nor checked. */
const NOT_IN_MEMORY = ["persistent", "checked"];

/** Returns the scenario's requirements that the store lacks. */
function lacks(scenario, mode) {
  return (scenario.needs ?? []).filter((need) => NEVER.includes(need) || (mode.memory && NOT_IN_MEMORY.includes(need)));
}

async function scenariosOf(topic) {
  const response = await fetch(new URL(`../../scenarios/${topic}.json`, import.meta.url));
  if (!response.ok) throw new Error(`${topic}.json: ${response.status}`);
  return response.json();
}

export const tests = {};

for (const topic of TOPICS) {
  for (const scenario of await scenariosOf(topic)) {
    for (const [name, mode] of Object.entries(MODES)) {
      tests[`${topic}: ${scenario.name} (${name})`] = (t) => {
        const missing = lacks(scenario, mode);
        return missing.length > 0 ? t.ignore(`the store lacks ${missing.join(", ")}`) : new Player(t, scenario, mode).run();
      };
    }
  }
}
