// "Busy: training, 12 min left": what a form says while somebody else has the device, and what can be done about it: wait,
// stop, or use the CPU. Knows no form: it is told how the form's device is read and set.
//
// Says nothing where the device is the CPU anyway, and of a job that is itself on another device.

import { h, setText } from "./dom.js";
import { timeLeft } from "./jobs.js";

const CPU = "cpu";

/** {node, draw()}; `device()` is what the form says ("" for the engine's own), `choose(device)` sets it. */
export function busyNote(feed, { device, choose }) {
  const text = h("span", {});
  const stop = h("button", { type: "button", class: "hw-small", title: "It ends at its next checkpoint; what it made stays", onclick: () => halt() }, "Stop it");
  const cpu = h("button", { type: "button", class: "hw-small", title: "Slower, and beside the other work", onclick: () => { choose(CPU); draw(); } }, "Use the CPU");
  const wait = h("button", { type: "button", class: "hw-small", title: "Starts when the device is free", onclick: () => { choose(""); draw(); } }, "Wait for the device");
  const said = h("span", { class: "hw-problem", role: "alert", hidden: true });
  const node = h("div", { class: "hw-busy", role: "status", hidden: true }, text, h("div", { class: "hw-actions" }, wait, cpu, stop), said);

  async function halt() {
    try {
      await feed.act(feed.status.job, "stop");
      said.hidden = true;
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
  }

  function draw() {
    const status = feed.status;
    const place = status && (status.place || status.device); // a run may be decoded on the CPU beside the holder
    node.hidden = !(status && status.holder && !isCpu(place));
    if (node.hidden) return;
    const job = (feed.jobs || []).find((one) => one.id === status.job);
    const left = job && !status.holder.includes(" left") ? timeLeft(job.progress) : "";
    const busy = `${place} is busy: ${[status.holder, left].filter(Boolean).join(", ")}.`;
    const asked = Boolean(job && job.requested);
    const elsewhere = isCpu(device());
    setText(text, elsewhere ? `${busy} What you start here does not wait: it works on the CPU.`
      : `${busy} What you start here waits for it${asked ? "; it was asked to end" : ""}.`);
    wait.hidden = !elsewhere;
    cpu.hidden = elsewhere;
    stop.hidden = !job || asked || elsewhere;
  }

  feed.on((changed) => { if (changed.has("status") || changed.has("jobs")) draw(); });
  draw();
  return { node, draw };
}

/** Whether a device in words is the processor. */
export function isCpu(device) {
  return String(device || "").trim().toLowerCase().startsWith(CPU);
}
