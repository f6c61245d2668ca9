// The right side of the Evaluate page: the evaluation that is shown, its table as it fills, and the others.
//
// value: {job: id or null, error: sentence or null, at}. Triggers quick (evaluate the built-in heads), open {job}.
// The table is computed by the server and asked for again when the job says that it has come further.

import { h, setText } from "../dom.js";
import { jobCard, jobList } from "../job_card.js";
import { evaluationTable } from "./evaluate_table.js";

const QUIETEST_MS = 1200;
const MANY = 3; // more groups than this are shown one at a time

export function mount(element, feed, gradio) {
  const page = new Page(feed, gradio);
  element.replaceChildren(page.node);
  gradio.watch("value", () => page.take(gradio.props.value));
  page.take(gradio.props.value);
}

class Page {
  constructor(feed, { trigger }) {
    this.feed = feed;
    this.id = null;
    this.data = null;
    this.at = null;
    this.open = new Set(); // rows whose domains are shown
    this.group = null; // label of the only group that is shown; null: all
    this._asked = "";
    this._timer = null;
    this._last = 0;
    this.problem = h("p", { class: "hw-banner", "data-kind": "error", role: "alert", hidden: true });
    this.card = h("ul", { class: "hw-jobs" });
    this.conditions = h("p", { class: "hw-conditions" });
    this.notes = h("ul", { class: "hw-evaluation-notes" });
    this.choice = h("div", { class: "hw-evaluation-choice", role: "group", "aria-label": "Configurations" });
    this.tables = h("div", { class: "hw-evaluation-tables" });
    this.legend = h("p", { class: "hw-muted" }, "Intervals: 95 %, prompts resampled whole. ",
      "“best” is only said where the paired difference to every other row is beyond chance. Figures are sums over a set's prompts, divided last; ▸ shows its domains.");
    this.csv = h("a", { class: "hw-small" }, "CSV");
    this.json = h("a", { class: "hw-small" }, "JSON");
    this.shown = h("section", { class: "hw-card hw-evaluation-card", hidden: true }, this.card,
      h("div", { class: "hw-evaluation-head" }, this.choice, h("span", { class: "hw-grow" }), this.csv, this.json),
      this.notes, this.tables, this.legend, this.conditions);
    const start = h("button", { type: "button", class: "hw-primary", onclick: () => trigger("quick", {}) }, "Evaluate the built-in heads");
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "How much faster is a drafter, on which prompts?"),
      h("p", {}, "An evaluation answers whole prompt sets with every drafter and with plain decoding, in turns, so that a slow minute hits each alike. ",
        "It shows acceptance by depth, the speedup with its interval, and what the speedup is made of."),
      h("p", {}, "Start with the built-in heads on the project's own prompts, or choose your own in the form."), start);
    this.others = null;
    this.list = h("section", { class: "hw-card", hidden: true }, h("h3", {}, "Evaluations"));
    this.others = jobList(feed, (row) => row.kind === "evaluate", () => this._drawOthers());
    this.list.append(this.others.node);
    this._drawOthers();
    this.node = h("div", { class: "hw-evaluate" }, this.problem, this.welcome, this.shown, this.list);
    feed.on((changed) => { if (changed.has("jobs")) this._follow(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this._follow(); });
  }

  take(value) {
    if (!value || value.at === this.at) return;
    this.at = value.at;
    setText(this.problem, value.error || "");
    this.problem.hidden = !value.error;
    if (!value.error) this.show(value.job);
    this.welcome.hidden = this.id !== null || Boolean(value.job);
  }

  show(id) {
    if (id === this.id) return;
    this.id = id;
    this.data = null;
    this._asked = "";
    this.open.clear();
    this.group = null;
    this._card = null;
    this.card.replaceChildren();
    this.shown.hidden = !id;
    const address = new URL(window.location.href);
    if (id) address.searchParams.set("job", id);
    else address.searchParams.delete("job");
    window.history.replaceState(null, "", address);
    this.tables.replaceChildren();
    this._drawOthers();
    if (id) {
      this.csv.href = `/headway/evaluations/${encodeURIComponent(id)}.csv`;
      this.json.href = `/headway/evaluations/${encodeURIComponent(id)}.json`;
      this._load();
    }
  }

  /** The list of jobs has changed: bring the card up to date, and the table when the job has come further. */
  _follow() {
    const row = this._row();
    if (!row || document.hidden) return;
    this._drawCard(row);
    const place = `${row.status} ${row.attempt} ${row.progress ? row.progress.done : ""}`;
    if (place === this._asked) return;
    this._asked = place;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._load(), Math.max(0, this._last + QUIETEST_MS - performance.now()));
  }

  _row() {
    return this.id && (this.feed.jobs || []).find((row) => row.id === this.id);
  }

  async _load() {
    const id = this.id;
    if (!id) return;
    this._last = performance.now();
    try {
      const data = await this.feed.ask(`/headway/evaluations/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.data = data;
      this._draw();
    } catch (error) {
      if (id !== this.id) return;
      setText(this.problem, error.message);
      this.problem.hidden = false;
      this.shown.hidden = !this.data;
    }
  }

  _drawCard(row) {
    if (!this._card) {
      this._card = jobCard(this.feed, row);
      this.card.replaceChildren(this._card.node);
    }
    this._card.update(row);
  }

  /** The list without the one that is shown above it. */
  _drawOthers() {
    if (!this.others) return; // the list draws itself before it is handed over
    let count = 0;
    for (const card of this.others.node.children) {
      card.hidden = card.dataset.job === this.id;
      count += !card.hidden;
    }
    this.list.hidden = count === 0;
  }

  _draw() {
    const { data } = this;
    this._drawCard(this._row() || data.job);
    this.notes.replaceChildren(...data.notes.map((note) => h("li", {}, note)));
    const badge = data.rule ? h("span", { class: `hw-badge ${data.rule[0]}`, title: data.rule[1] }, data.rule[0]) : null;
    this.conditions.replaceChildren(...[badge, ...data.conditions.map((text) => h("span", {}, text))].filter(Boolean));
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
