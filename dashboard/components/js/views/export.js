// The right side of the Export page: the export that is shown, the command that serves it and what the check found.
//
// value: {job: id or null, error: sentence or null, at}.

import { h } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";

const QUIETEST_MS = 500;
const EFFECTS = { load: "the engine stops", silent: "loads without a word", doubt: "may be meant so" };

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed));
}

class Page extends ShownJob {
  constructor(feed) {
    super(feed, { kind: "export", title: "Exports", quietestMs: QUIETEST_MS, step: Math.floor });
    this.result = h("div", { class: "hw-exported-result" });
    this.shown = h("section", { class: "hw-card hw-exported-card", hidden: true }, this.card, this.notes, this.conditions, this.result);
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Hand a drafter to the engine that serves it"),
      h("p", {}, "An export is one folder as vLLM or SGLang reads it, with the command that serves it and the tree that was tuned. "
        + "The folder is then held against what the engine looks for, since engines load many a mistake without a word."),
      h("p", {}, "No engine has to be installed here. Choose a drafter on the left; nothing of the drafter itself is changed."));
    this.node = h("div", { class: "hw-exported" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.result.replaceChildren();
  }

  async load(id) {
    try {
      const job = await this.feed.ask(`/headway/jobs/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      const done = job.result || {};
      this.drawHead({ job, notes: done.notes || [], conditions: conditions(job.config, done) }, null);
      this.result.replaceChildren(...(done.out ? parts(done) : []));
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }
}

function conditions(config, done) {
  if (!done.out) return [];
  const tokens = `${done.num_speculative_tokens} token${done.num_speculative_tokens === 1 ? "" : "s"} drafted at a time`;
  return [`${done.family} for ${done.engine}`, config.target, `${done.tensors} tensors`, `${(done.bytes / 1e6).toFixed(1)} MB`, tokens].filter(Boolean);
}

function parts(done) {
  return [
    h("div", { class: "hw-exported-place" }, h("span", { class: "hw-label" }, "Folder"), copied(done.out, "The folder's path")),
    done.command ? h("div", { class: "hw-exported-place" }, h("span", { class: "hw-label" }, "The command that serves it"), copied(done.command, "The command"),
      h("p", { class: "hw-muted" }, "Run it in the folder above; README.md inside says more.")) : null,
    ...(done.check ? checked(done.check) : []),
  ].filter(Boolean);
}

function copied(text, label) {
  const code = h("pre", { class: "hw-command-text", tabindex: "0", "aria-label": label }, text);
  const copy = h("button", { type: "button", class: "hw-small", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  } }, "Copy");
  return h("div", { class: "hw-command" }, code, copy);
}

/** What `check` found, worst first as it comes. */
function checked(report) {
  const head = h("h3", {}, `Checked as ${report.engine} reads it`);
  if (!report.findings.length) return [head, h("p", { class: "hw-exported-clean" }, `✓ ${report.tensors} tensors and every key of the config are what ${report.engine} looks for.`)];
  return [head, h("ol", { class: "hw-exported-findings" }, report.findings.map((one) => h("li", { "data-effect": one.effect },
    h("b", {}, `${one.where}: ${one.what}`), h("span", { class: "hw-badge approximate" }, EFFECTS[one.effect] || one.effect),
    h("p", {}, one.consequence), h("p", { class: "hw-muted" }, `To mend it: ${one.mend}`))))];
}
