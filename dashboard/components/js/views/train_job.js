// The job that is shown: how far it is, what can be done with it, its log, and what came out of it.
// value: null. Triggers fork {job, step: of the weights to start from, null: the best}, text {job, form: command or yaml}.

import { h, setText } from "../dom.js";
import { jobCard } from "../job_card.js";
import { isOpen } from "../jobs.js";
import { trainer } from "../train.js";
import { resultParts } from "./train_result.js";

export function mount(element, feed, { trigger }) {
  const train = trainer(feed);
  const list = h("ul", { class: "hw-jobs" });
  const act = (label, title, call) => h("button", { type: "button", class: "hw-small", title, onclick: call }, label);
  const weights = h("select", { "aria-label": "Weights a fork starts from", title: "Weights a fork starts from" });
  const step = () => (weights.value ? Number(weights.value) : null);
  const tools = h("div", { class: "hw-actions" },
    act("Fork", "A new training with these settings, from these weights", () => trigger("fork", { job: train.id, step: step() })),
    h("label", { class: "hw-fork-from" }, "from ", weights),
    act("Copy as command", "The command line that does the same", () => trigger("text", { job: train.id, form: "command" })),
    act("As YAML", "The file that --config takes", () => trigger("text", { job: train.id, form: "yaml" })),
    h("span", { class: "hw-grow" }),
    act("New training", "Back to the form", () => train.show(null)));
  const problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const result = h("div", { class: "hw-result", hidden: true });
  const box = h("section", { class: "hw-card hw-train-job", hidden: true, "aria-label": "This training" }, list, problem, result, tools);
  element.replaceChildren(box);
  let card = null;
  let drawn = null;
  let offered = "";
  offer([]);

  /** The weights to choose from: the best (the last where none were judged), and those of the steps that are kept. */
  function offer(steps) {
    const chosen = weights.value;
    weights.replaceChildren(h("option", { value: "" }, "its best weights"),
      ...[...steps].reverse().map((one) => h("option", { value: one }, `step ${one.toLocaleString("en")}`)));
    if (steps.includes(Number(chosen))) weights.value = chosen;
  }

  /** Asks which weights there are, when the job has come so far that others may be. */
  async function ask() {
    const every = train.job.config.training ? train.job.config.training.checkpoint_every || 100 : 100;
    const done = train.job.progress && train.job.progress.unit === "steps" ? Math.floor(train.job.progress.done / every) : "";
    const place = `${train.id} ${train.job.status} ${done}`;
    if (place === offered || train.job.kind !== "train") return;
    offered = place;
    const answer = await feed.ask(`/headway/jobs/${encodeURIComponent(train.id)}/weights`).catch(() => ({ steps: [] }));
    if (place === offered) offer(answer.steps);
  }

  train.on((changed) => {
    if (changed.has("job")) {
      if (card) card.close();
      card = null;
      drawn = null;
      list.replaceChildren();
      result.hidden = true;
      offer([]);
    }
    box.hidden = !train.id;
    setText(problem, train.error || "");
    problem.hidden = !problem.textContent;
    if (!train.job) return;
    if (!card) {
      card = jobCard(feed, train.job);
      list.replaceChildren(card.node);
      if (isOpen(train.job)) card.node.querySelector("details").open = true;
    }
    card.update(train.job);
    ask();
    const now = JSON.stringify(train.job.result);
    if (now !== drawn) {
      drawn = now;
      const parts = train.job.result ? resultParts(train.job) : [];
      result.replaceChildren(...parts);
      result.hidden = !parts.length;
    }
  });
}
