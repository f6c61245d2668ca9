// A person's own measurements on the Learn page: which there are, and what they say. Asks the same routes as the Trees
// page. Knows no figure.

import { h, setText } from "./dom.js";

let asked = null;

/** {calibrations, costs}, asked for once: nothing is measured while somebody reads. */
function choices(feed) {
  asked = asked || feed.ask("/headway/trees").catch(() => ({ calibrations: [], costs: [] }));
  return asked;
}

/** The newest cost curve of a calibration's target and drafter. */
export function costFor(calibration, costs) {
  const same = (name) => costs.filter((one) => one[name] === calibration[name]);
  return same("target").find((one) => one.drafter === calibration.drafter) || null;
}

/**
 * A picker of calibrations. `changed(chain, name)`: points of a measured chain (see tune_view.py), null for none.
 * Shows what to do where nothing was measured yet.
 */
export function measuredChains(feed, changed, told) {
  const select = h("select", { "aria-label": "your measurement" }, h("option", { value: "" }, "none"));
  const note = h("p", { class: "hw-muted" });
  const node = h("div", { class: "hw-own" }, h("label", { class: "hw-slider hw-choice" }, h("span", {}, "your own"), select), note);
  let found = { calibrations: [], costs: [] };
  choices(feed).then((all) => {
    found = all;
    select.append(...all.calibrations.map((one) => h("option", { value: one.id }, one.label)));
    if (!all.calibrations.length) note.replaceChildren("Calibrate a drafter on the ", h("a", { href: "/trees" }, "Trees page"), ", and what it does on your machine is laid over this figure.");
    select.disabled = !all.calibrations.length;
  });
  select.addEventListener("change", async () => {
    const wanted = select.value;
    const calibration = found.calibrations.find((one) => one.id === wanted);
    if (!calibration) { setText(note, ""); changed(null, ""); return; }
    const cost = costFor(calibration, found.costs);
    setText(note, "Reading the measurement …");
    try {
      const view = await feed.ask(`/headway/trees/view?${new URLSearchParams({ calibration: calibration.id, ...(cost ? { cost: cost.id } : {}) })}`);
      if (select.value !== wanted) return;
      setText(note, view.problem || (cost ? "" : "No cost curve of this pair is here yet, so only what is accepted is drawn."));
      changed(view.chain, calibration.label);
      told("");
    } catch (error) {
      setText(note, "");
      changed(null, "");
      told(error.message);
    }
  });
  return node;
}

/** Machines that cost curves were measured on: `add(value, text)` for each, and `machine(value)` gives what one saw. */
export async function measuredMachines(feed, add) {
  const { costs } = await choices(feed);
  for (const one of costs) add(`cost:${one.id}`, `as measured: ${one.label}`);
}

export async function machine(feed, value) {
  const view = await feed.ask(`/headway/trees/view?${new URLSearchParams({ cost: value.slice("cost:".length) })}`);
  if (!view.cost.device) throw new Error("That cost curve was measured before the model's size was kept with it, or its weights are rounded; measure it again.");
  return view.cost.device;
}

/** A picker of sampled runs. `changed(id)`: "" for none. */
export function ownRuns(feed, changed) {
  const select = h("select", { "aria-label": "your run" }, h("option", { value: "" }, "none"));
  const note = h("p", { class: "hw-muted" });
  feed.ask("/headway/learn/runs").then(({ runs }) => {
    select.append(...runs.map((one) => h("option", { value: one.id }, one.label)));
    select.disabled = !runs.length;
    if (!runs.length) note.replaceChildren("Decode with a temperature on the ", h("a", { href: "/live" }, "Live page"), ", and the tokens drafted there are shown as points.");
  }).catch(() => { select.disabled = true; });
  select.addEventListener("change", () => changed(select.value));
  return h("div", { class: "hw-own" }, h("label", { class: "hw-slider hw-choice" }, h("span", {}, "your run"), select), note);
}
