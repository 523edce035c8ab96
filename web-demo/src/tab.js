// The second tab of the trial with two tabs: wants what the page that opened it wants.

import { outcome, runTrial } from "./ui/trial.js";

const { run, device } = Object.fromEntries(new URL(location.href).searchParams);
const channel = new BroadcastChannel(`warmstart-demo ${run}`);

runTrial("race", { device, run }).then(
  (result) => {
    document.getElementById("result").textContent = `This tab ${outcome(result)}.`;
    channel.postMessage(result);
  },
  ({ message }) => (document.getElementById("result").textContent = `That did not work: ${message}`),
);
