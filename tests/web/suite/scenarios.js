// What every native store does, played on the npm package: see tests/scenarios/README.md.

import { Player } from "../scenario/player.js";

const TOPICS = ["interface", "eviction", "damage", "inspect", "one_call"];

// A value up to 48 KiB is one record. A larger one is a head and parts, which is other code all the way down.
const MODES = {
  small: { standard: 8000, added: 0, memory: false },
  large: { standard: 100_000, added: 60_000, memory: false },
  memory: { standard: 8000, added: 0, memory: true },
};

// What a browser does not do: it looks into no entry to count it or to say whether there is one.
const NEVER = ["heads"];

function canPlay(scenario, mode) {
  return (scenario.needs ?? []).every((need) => {
    if (NEVER.includes(need)) return false;
    return !(mode.memory && (need === "persistent" || need === "checked"));
  });
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
      if (canPlay(scenario, mode)) {
        tests[`${topic}: ${scenario.name} (${name})`] = (t) => new Player(t, scenario, mode).run();
      }
    }
  }
}
