// The right side of the Evaluate page: the evaluation that is shown, its table as it fills, and the others.
//
// value: {job: id or null, error: sentence or null, at}. Triggers quick (evaluate the built-in heads), open {job}.
// The table is computed by the server and asked for again when the job says that it has come further.

import { h } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { evaluationTable } from "./evaluate_table.js";

const QUIETEST_MS = 1200;
const MANY = 3; // more groups than this are shown one at a time

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed, gradio));
}

class Page extends ShownJob {
  constructor(feed, { trigger }) {
    super(feed, { kind: "evaluate", title: "Evaluations", quietestMs: QUIETEST_MS, step: (done) => done });
    this.data = null;
    this.open = new Set(); // rows whose domains are shown
    this.group = null; // label of the only group that is shown; null: all
    this.choice = h("div", { class: "hw-evaluation-choice", role: "group", "aria-label": "Configurations" });
    this.tables = h("div", { class: "hw-evaluation-tables" });
    this.legend = h("p", { class: "hw-muted" }, "Intervals: 95 %, prompts resampled whole. ",
      "“best” is only said where the paired difference to every other row is beyond chance. Figures are sums over a set's prompts, divided last; ▸ shows its domains.");
    this.shown = h("section", { class: "hw-card hw-evaluation-card", hidden: true }, this.card,
      h("div", { class: "hw-evaluation-head" }, this.choice, h("span", { class: "hw-grow" }), this.csv, this.json),
      this.notes, this.tables, this.legend, this.conditions);
    const start = h("button", { type: "button", class: "hw-primary", onclick: () => trigger("quick", {}) }, "Evaluate the built-in heads");
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "How much faster is a drafter, on which prompts?"),
      h("p", {}, "An evaluation answers whole prompt sets with every drafter and with plain decoding, in turns, so that a slow minute hits each alike. ",
        "It shows acceptance by depth, the speedup with its interval, and what the speedup is made of."),
      h("p", {}, "Start with the built-in heads on the project's own prompts, or choose your own in the form."), start);
    this.node = h("div", { class: "hw-evaluate" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.data = null;
    this.open.clear();
    this.group = null;
    this.tables.replaceChildren();
  }

  addresses(id) {
    const place = `/headway/evaluations/${encodeURIComponent(id)}`;
    return { csv: `${place}.csv`, json: `${place}.json` };
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/evaluations/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.data = data;
      this._draw();
    } catch (error) {
      if (id !== this.id) return;
      this.complain(error.message);
      this.shown.hidden = !this.data;
    }
  }

  _draw() {
    const { data } = this;
    this.drawHead(data, data.rule && { text: data.rule[0], kind: data.rule[0], why: data.rule[1] });
    this.legend.hidden = !data.groups.length;
    for (const link of [this.csv, this.json]) link.hidden = !data.groups.length;
    this._drawChoice();
    this._drawTables();
  }

  _drawChoice() {
    const labels = this.data.groups.map((group) => group.label);
    if (labels.length > MANY && !labels.includes(this.group)) this.group = labels[0];
    if (labels.length < 2) {
      this.choice.replaceChildren();
      return;
    }
    const pick = (label, text) => h("button", { type: "button", class: "hw-chip", "aria-pressed": String(this.group === label), onclick: () => {
      this.group = label;
      this._drawChoice();
      this._drawTables();
    } }, text);
    this.choice.replaceChildren(...labels.map((label) => pick(label, label)), labels.length > MANY ? "" : pick(null, "All"));
  }

  _drawTables() {
    const { groups, sizes, job } = this.data;
    const focused = document.activeElement && this.tables.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const shown = groups.filter((group) => this.group === null || group.label === this.group);
    const toggle = (key) => {
      if (!this.open.delete(key)) this.open.add(key);
      this._drawTables();
    };
    const tables = shown.map((group) => h("section", {}, h("h4", {}, group.label),
      h("div", { class: "hw-table-scroll" }, evaluationTable(group, { open: this.open, toggle, sizes }))));
    const waiting = ["queued", "running"].includes(job.status) ? "The table fills as soon as the first prompts are answered." : "Nothing was measured.";
    this.tables.replaceChildren(...(tables.length ? tables : [h("p", { class: "hw-nothing" }, waiting)]));
    if (focused) this.tables.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
}
