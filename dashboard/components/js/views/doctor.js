// The right side of the Doctor page: the verdict of the diagnosis that is shown, its causes by what mending them gains, what
// could not be tested, and the other diagnoses.
//
// value: {job: id or null, error: sentence or null, at}.

import { h } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { term } from "../terms.js";

const QUIETEST_MS = 1500;
const VERDICTS = {
  healthy: { title: "Healthy", sign: "✓" },
  faults: { title: "Something keeps it from being accepted", sign: "✕" },
  "too few": { title: "Too few prompts to tell", sign: "?" },
  unexplained: { title: "Low, and not explained", sign: "?" },
};

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed));
}

class Page extends ShownJob {
  constructor(feed) {
    super(feed, { kind: "doctor", title: "Diagnoses", quietestMs: QUIETEST_MS, step: Math.floor });
    this.result = h("div", { class: "hw-doctor-result" });
    this.shown = h("section", { class: "hw-card hw-doctor-card", hidden: true }, this.card, this.result, this.notes, this.conditions);
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Why is my acceptance low?"),
      h("p", {}, "The doctor looks at a drafter's files and versions, lets the target answer your prompts, and sees what the drafter would have guessed at every place. "
        + "What can be undone is undone, one thing at a time, so that each cause comes with what mending it gains and the command that mends it."),
      h("p", {}, "Choose a drafter and prompts at the side. The answers that it was trained on, and a cost curve, let it test more."));
    this.node = h("div", { class: "hw-doctor" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.result.replaceChildren();
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/diagnoses/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.drawHead(data, null);
      this.result.replaceChildren(...(data.verdict ? over(data, id) : underway(data)));
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }
}

function over(data, id) {
  const { title, sign } = VERDICTS[data.verdict] || { title: data.verdict, sign: "?" };
  const most = Math.max(0, ...data.causes.map((one) => Number(one.gain.high) || 0));
  return [
    h("div", { class: "hw-doctor-verdict", "data-verdict": data.verdict, role: "status" }, h("span", { class: "hw-doctor-sign", "aria-hidden": "true" }, sign),
      h("div", {}, h("h2", {}, title), h("p", {}, data.sentence))),
    h("div", { class: "hw-actions" }, h("a", { class: "hw-small", href: `/headway/diagnoses/${encodeURIComponent(id)}/diagnosis.json` }, "JSON")),
    data.causes.length ? h("p", { class: "hw-muted" }, "Each with its ", term("expected_gain", "expected gain"), " in ", term("acceptance_length", "acceptance length"), "; the most certain causes stand first.") : null,
    data.causes.length ? h("ol", { class: "hw-doctor-causes" }, data.causes.map((one) => cause(one, most))) : null,
    untested(data.untested),
  ].filter(Boolean);
}

/** One cause: what it is, what it would gain as a bar from its lower to its upper bound, and how it is mended. */
function cause(one, most) {
  const { gain } = one;
  const place = (value) => `${((100 * Math.max(0, value)) / most).toFixed(2)}%`;
  const bar = most && gain.high !== null && gain.high !== undefined
    ? h("span", { class: "hw-doctor-bar", "aria-hidden": "true" },
      h("i", { class: "span", style: `left:${place(gain.low || 0)};right:calc(100% - ${place(gain.high)})` }),
      gain.middle === null ? null : h("i", { class: "dot", style: `left:${place(gain.middle)}` }))
    : null;
  return h("li", { class: "hw-doctor-cause", "data-kind": one.kind },
    h("p", { class: "hw-doctor-what" }, one.sentence),
    h("p", { class: "hw-doctor-gain" }, h("b", {}, gain.text), ` ${one.how}${one.told_by ? `: ${one.told_by}` : ""}`), bar,
    h("p", {}, one.mend), h("code", { class: "hw-doctor-command" }, one.command),
    one.evidence.length ? h("details", {}, h("summary", {}, "Evidence"), h("dl", {}, one.evidence.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))) : null);
}

function untested(groups) {
  if (!groups.length) return null;
  return h("details", { class: "hw-doctor-untested" }, h("summary", {}, "What could not be tested"),
    h("ul", {}, groups.map((one) => h("li", {}, `${one.kinds.join(", ")}: ${one.reason}`))));
}

/** While it runs: how much was measured; no verdict before the end. */
function underway({ so_far: found, job }) {
  if (!found.answers) return [h("p", { class: "hw-nothing" }, ["queued", "running"].includes(job.status) ? "Nothing was looked at yet." : "It ended before anything was looked at.")];
  const tried = found.trials.length ? ` Tried: ${found.trials.join(", ")}.` : "";
  return [h("p", { class: "hw-muted" }, `${found.answers} answers are there.${tried} The verdict comes at the end.`)];
}
