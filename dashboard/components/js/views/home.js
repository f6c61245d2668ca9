// The front page: what Headway is (at a first visit), the next action, each version's way, jobs and recent runs.

import { h, setText } from "../dom.js";
import { ago, jobList, statusIcon } from "../job_card.js";
import { isOpen } from "../jobs.js";
import { decimal } from "../text.js";
import { exampleTree } from "./tree.js";

const WORDS = { data: "data", trained: "trained", tuned: "tuned", checked: "checked", exported: "exported" };
const AGAIN_MS = 1500;
const NUM_ENDED = 4;

export function mount(element, feed) {
  const welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
    h("h1", {}, "Headway makes a language model answer faster without changing its answers."),
    h("p", {}, "It trains small draft heads that guess several tokens ahead, lets your model check each guess in one pass, and shows which guesses it kept."),
    h("div", { class: "hw-actions" }, h("a", { class: "hw-primary", href: "/live?demo=1" }, "See it work")),
    h("figure", { class: "hw-tree hw-sample" }, h("div", { class: "hw-sample-scroll" }, exampleTree()), h("figcaption", {}, "An example: nine guesses checked in one pass; the three that the model agrees with are kept")));
  const next = h("section", { class: "hw-card hw-next", hidden: true });
  const versions = h("section", { class: "hw-card hw-versions", hidden: true });
  const nowTitle = h("h3", {}, "Jobs");
  const noJobs = h("p", { class: "hw-muted" }, "No job runs or waits. Jobs go on when you close this page.");
  const list = jobList(feed, (row, index, rows) => isOpen(row) || rows.filter((one) => !isOpen(one)).indexOf(row) < NUM_ENDED);
  const jobs = h("section", { class: "hw-card hw-joblist", hidden: true }, nowTitle, noJobs, list.node);
  const runs = h("section", { class: "hw-card hw-lastruns", hidden: true });
  const trouble = h("p", { class: "hw-problem", role: "alert", hidden: true });
  element.replaceChildren(h("div", { class: "hw-home" }, trouble, welcome, next, jobs, versions, runs));

  async function load() {
    try {
      draw(await feed.ask("/headway/home"));
      trouble.hidden = true;
    } catch (error) {
      setText(trouble, error.message);
      trouble.hidden = false;
    }
  }
  function draw(found) {
    welcome.hidden = !found.first;
    next.hidden = found.first;
    next.replaceChildren(h("p", {}, found.next.sentence), h("a", { class: "hw-primary", href: found.next.href }, found.next.label));
    versions.hidden = !found.versions.length;
    versions.replaceChildren(h("h3", {}, "Versions"), h("ul", { class: "hw-ways" }, found.versions.map(way)));
    runs.hidden = !found.runs.length;
    runs.replaceChildren(h("div", { class: "hw-card-head" }, h("h3", {}, "Recent runs"), h("span", { class: "hw-grow" }),
      h("a", { class: "hw-quiet", href: "/runs" }, found.num_runs > found.runs.length ? `All ${found.num_runs.toLocaleString("en")} runs` : "All runs")),
    h("ul", { class: "hw-recent" }, found.runs.map(runLine)));
  }

  let seen = null;
  let timer = null;
  feed.on((changed) => {
    if (!changed.has("jobs") && !changed.has("status")) return;
    if (feed.jobs) {
      jobs.hidden = !feed.jobs.length;
      noJobs.hidden = feed.jobs.some(isOpen);
    }
    const now = JSON.stringify([(feed.jobs || []).map((row) => [row.id, row.status]), feed.status && feed.status.running]);
    if (now === seen) return;
    seen = now;
    clearTimeout(timer);
    timer = setTimeout(load, seen === null ? 0 : AGAIN_MS);
  });
  load();
}

/** A version and its five stages, each with a shape: done or not yet. */
function way(version) {
  const stages = version.stages.map((stage) => h("li", { class: stage.done ? "done" : "open", title: stage.note || "not yet" },
    statusIcon(stage.done ? "tick" : "ring"), h("span", {}, WORDS[stage.name]), h("small", {}, stage.note || "not yet")));
  return h("li", {}, h("div", { class: "hw-way-name" }, h("b", {}, version.label), h("small", {}, size(version.parameters))), h("ol", { class: "hw-stages" }, stages));
}

function size(parameters) {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} billion parameters`;
  return parameters >= 1e6 ? `${Math.round(parameters / 1e6)} million parameters` : `${parameters.toLocaleString("en")} parameters`;
}

function runLine(run) {
  const note = [run.status === "finished" ? null : run.status, run.drafter, run.tokens === null ? null : `${run.tokens} tokens`,
    run.acceptance_length === null ? null : `${decimal(run.acceptance_length)} a step`, ago(run.at)].filter(Boolean).join(" · ");
  return h("li", {}, h("a", { href: `/live?run=${encodeURIComponent(run.id)}` },
    h("span", { class: "hw-recent-prompt" }, run.prompt || "(no text)"), h("small", {}, note)));
}
