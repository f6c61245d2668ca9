// What runs take on disk, and making room: dropping recorded steps of old runs, emptying the waste basket.

import { h, setText } from "./dom.js";

const MIB = 2 ** 20;

export function mountDisk(table) {
  const { feed } = table;
  const summary = h("summary", {}, "Disk use");
  const words = h("p", {});
  const keep = h("input", { type: "number", min: "0", step: "1", "aria-label": "Runs that keep their steps" });
  const size = h("input", { type: "number", min: "0", step: "1", "aria-label": "Most MiB of steps" });
  const prune = h("button", { type: "button", class: "hw-small", onclick: () => act(pruneNow) }, "Keep these bounds, drop the rest now");
  const purge = h("button", { type: "button", class: "hw-small", onclick: () => act(purgeNow) }, "Empty the waste basket");
  const said = h("p", { class: "hw-muted", role: "status" });
  const node = h("details", { class: "hw-card hw-disk", hidden: true }, summary, words,
    h("div", { class: "hw-actions" }, h("label", {}, "Keep the steps of the newest ", keep, " runs"), h("label", {}, "and at most ", size, " MiB"), prune),
    h("p", { class: "hw-muted" }, "An empty field is no bound. The bounds hold again at each start. Runs keep their text and numbers for good; only their step-by-step replay is dropped."),
    h("div", { class: "hw-actions" }, purge), said);
  let armed = false;
  let touched = false; // a person is typing: what was chosen before must not come between
  for (const field of [keep, size]) field.addEventListener("input", () => { touched = true; });

  async function act(work) {
    try {
      setText(said, await work());
      await refresh();
      await table.load();
    } catch (error) {
      setText(said, error.message);
    }
  }
  async function pruneNow() {
    const values = { keep_runs: keep.value === "" ? null : Number(keep.value), max_bytes: size.value === "" ? null : Math.round(Number(size.value) * MIB) };
    touched = false;
    const { pruned } = await feed.ask("/headway/table/prune", values);
    return pruned ? `Dropped the steps of ${pruned.toLocaleString("en")} run${pruned === 1 ? "" : "s"}.` : "Nothing to drop: the bounds already hold.";
  }
  async function purgeNow() {
    if (!armed) {
      armed = true;
      setText(purge, "Empty it for good?");
      setTimeout(disarm, 5000);
      return "Its runs can't be taken back afterwards.";
    }
    disarm();
    const { purged } = await feed.ask("/headway/table/purge", {});
    return `Deleted ${purged.toLocaleString("en")} run${purged === 1 ? "" : "s"} for good.`;
  }
  function disarm() {
    armed = false;
    setText(purge, "Empty the waste basket");
  }
  async function refresh() {
    if (node.hidden) return;
    const usage = await feed.ask("/headway/table/usage");
    if (!touched) {
      keep.value = usage.retention.keep_runs ?? "";
      size.value = usage.retention.max_bytes === null ? "" : Math.round(usage.retention.max_bytes / MIB);
    }
    const file = usage.file_bytes === null ? "" : `; the database takes ${inWords(usage.file_bytes)}`;
    setText(summary, `Disk use: ${inWords(usage.trace_bytes)} of recorded steps`);
    const trashed = usage.num_trashed_runs;
    setText(words, `${usage.num_traced_runs.toLocaleString("en")} of ${usage.num_runs.toLocaleString("en")} runs can be replayed step by step: ${inWords(usage.trace_bytes)}${file}.`
      + (trashed ? ` ${trashed.toLocaleString("en")} run${trashed === 1 ? " is" : "s are"} in the waste basket.` : ""));
    purge.hidden = trashed === 0;
  }
  return { node, refresh: () => refresh().catch((error) => setText(said, error.message)) };
}

function inWords(bytes) {
  const value = bytes / MIB;
  if (value < 0.1) return `${Math.ceil(bytes / 1024)} KiB`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} MiB`;
}
