// What the settings in the form will take: time, memory, disk. value: {title, badge, figures: [{label, value, note}],
// phases: [{name, text, share, measured}], notes: [sentence], problem, measuring: id of the measuring job or null}
// Triggers measure {typed} and measured {job, typed}, with what is typed in the form.

import { h, setText } from "../dom.js";
import { typedIn } from "./schema_form.js";

export function mount(element, feed, { props, watch, trigger }) {
  const badge = h("span", { class: "hw-badge" });
  const button = h("button", { type: "button", class: "hw-small", title: "Runs a few seconds of the real thing on the device" }, "Measure: 10 seconds");
  const figures = h("dl", { class: "hw-plan-figures" });
  const phases = h("ul", { class: "hw-phases" });
  const notes = h("div", { class: "hw-plan-notes" });
  const state = h("p", { class: "hw-muted", role: "status" });
  const problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const box = h("section", { class: "hw-card hw-plan", "aria-label": "Plan" },
    h("div", { class: "hw-card-head" }, h("h3", null, "What it will take"), badge, h("span", { class: "hw-grow" }), button),
    figures, phases, notes, state, problem);
  element.replaceChildren(box);
  button.addEventListener("click", () => {
    button.disabled = true;
    setText(state, "Asking for the device…");
    trigger("measure", { typed: typedIn("train") });
  });

  let followed = null;
  let leave = null;
  const follow = (id) => {
    if (id === followed) return;
    if (leave) leave();
    followed = id;
    leave = id ? feed.job(id).on((changed, job) => watchJob(job)) : null;
  };
  const watchJob = ({ id, job }) => {
    if (!job) return;
    const said = { queued: "Waiting for the device; it starts when the job before it is done.", running: (job.progress && job.progress.note) || "Measuring…" };
    setText(state, said[job.status] || "");
    button.disabled = job.status in said;
    if (job.status in said) return;
    if (job.status === "finished") trigger("measured", { job: id, typed: typedIn("train") });
    else complain(job.error || "Measuring was stopped.");
    setTimeout(() => follow(null), 0);
  };
  const complain = (sentence) => {
    setText(problem, sentence || "");
    problem.hidden = !sentence;
  };

  const draw = () => {
    const value = props.value;
    box.hidden = !value;
    if (!value) return;
    setText(badge, value.badge);
    badge.classList.toggle("approximate", value.badge !== "measured here");
    figures.replaceChildren(...value.figures.map((one) => h("div", { class: "hw-plan-figure" }, h("dt", null, one.label), h("dd", null, one.value), h("dd", { class: "hw-muted" }, one.note))));
    phases.replaceChildren(...value.phases.map((phase) => {
      const bar = h("i", { class: phase.measured ? "" : "guess" });
      bar.style.width = `${Math.max(1, 100 * phase.share)}%`;
      return h("li", null, h("span", null, phase.name), h("span", { class: "hw-phase-bar", "aria-hidden": "true" }, bar), h("span", { class: "hw-phase-time" }, phase.text));
    }));
    notes.replaceChildren(...value.notes.map((note) => h("p", { class: "hw-muted" }, note)));
    complain(value.problem);
    if (value.measuring) follow(value.measuring);
    else if (!followed) {
      button.disabled = false;
      setText(state, "");
    }
  };
  watch("value", draw);
  draw();
}
