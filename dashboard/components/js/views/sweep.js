// The right side of the Sweep page: the sweep that is shown, its charts with one selection, and the trial that is picked.
//
// value: {job: id or null, error: sentence or null, at}. Triggers quick (start the example).
// Trials come from the server piece by piece; brushing and picking ask nobody.

import { h, setText } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { onTheme } from "../sweep_canvas.js";
import { ALL, SweepModel, short } from "../sweep_model.js";
import { parallel } from "../sweep_parallel.js";
import { Scatter, contourUnder, importanceBars } from "../sweep_plots.js";
import { term } from "../terms.js";

const QUIETEST_MS = 1000;
const LISTED = 12; // trials in the table of the best

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed, gradio));
}

class Page extends ShownJob {
  constructor(feed, { trigger }) {
    super(feed, { kind: "sweep", title: "Sweeps", quietestMs: QUIETEST_MS, step: Math.floor });
    this.model = new SweepModel();
    if (window.headway) window.headway.sweep = this.model;
    this.seq = 0;
    this.charts = new Charts(this.model);
    this.waiting = h("p", { class: "hw-nothing" });
    this.shown = h("section", { class: "hw-sweep-stack", hidden: true },
      h("div", { class: "hw-card hw-sweep-head" }, this.card, this.notes, this.conditions,
        h("div", { class: "hw-sweep-links" }, this.csv, this.json), this.waiting),
      this.charts.node);
    const start = h("button", { type: "button", class: "hw-primary", onclick: () => trigger("quick", {}) }, "Start the tree example");
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Which settings are best here?"),
      h("p", {}, "A sweep tries settings of decoding or training on the same prompts, drops those that have no chance, and shows what matters and what it costs."),
      h("p", {}, "The example tries a few draft trees and depths with the built-in heads and takes a few minutes. Or choose your own knobs in the form."), start);
    this.node = h("div", { class: "hw-sweep" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.seq = 0;
    this.model.clear();
  }

  addresses(id) {
    const place = `/headway/sweeps/${encodeURIComponent(id)}`;
    return { csv: `${place}.csv`, json: `${place}.json` };
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/sweeps/${encodeURIComponent(id)}?after=${this.seq}`);
      if (id !== this.id) return;
      this.seq = data.seq;
      this.model.take(data);
      this._draw(data);
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }

  _draw(data) {
    this.drawHead(data, data.approximate && { text: "approximate", kind: "approximate", why: "Typical acceptance changes the output; drift says by how much." });
    const none = !this.model.rows.length;
    this.charts.node.hidden = none;
    for (const link of [this.csv, this.json]) link.hidden = none;
    this.waiting.hidden = !none;
    const open = ["queued", "running"].includes(data.job.status);
    setText(this.waiting, open ? "The charts fill as soon as the first trial is measured." : "No trial was measured.");
  }
}

/** All charts of the sweep, over one model. */
class Charts {
  constructor(model) {
    this.model = model;
    this.goal = choice("Coloured by", () => model.setGoal(this.goal.input.value));
    this.top = h("input", { type: "range", min: 1, max: ALL, value: ALL, id: "hw-sweep-top", oninput: () => model.setTop(Number(this.top.value)) });
    this.topText = h("output", { for: "hw-sweep-top" });
    this.count = h("span", { class: "hw-muted" });
    this.reset = h("button", { type: "button", class: "hw-small", onclick: () => model.reset() }, "Select all");
    const tools = h("div", { class: "hw-card hw-sweep-tools" }, this.goal.node,
      h("label", { class: "hw-smoothing", for: "hw-sweep-top" }, h("span", { class: "hw-label" }, "Best"), this.top, this.topText), this.count, h("span", { class: "hw-grow" }), this.reset);
    this.x = choice("Across", () => this.front.surface.now());
    this.y = choice("Up", () => this.front.surface.now());
    this.parallel = parallel(model);
    this.front = new Scatter(model, () => this._pair(this.x, this.y), { front: () => model.goals.length > 1 && this._onFront(), label: "Trials by two figures" });
    this.a = choice("Across", () => this.contour.surface.now());
    this.b = choice("Up", () => this.contour.surface.now());
    this.contour = new Scatter(model, () => this._pair(this.a, this.b), { under: contourUnder(model), label: "Figure over two knobs" });
    this.contourHead = figure("Contour", "colour bands: mean of the trials near by", this.contour.node, this.a.node, this.b.node);
    this.slices = h("div", { class: "hw-slices" });
    this.sliceCharts = [];
    this.bars = importanceBars(model);
    this.detail = h("section", { class: "hw-card hw-sweep-detail", "aria-live": "polite" });
    this.ranking = h("tbody", {});
    this.rankHead = h("tr", {});
    this.sliceTitle = h("h3", {}, "Slices");
    this.node = h("div", { class: "hw-sweep-charts", hidden: true }, tools,
      figure("Parallel coordinates", "drag along an axis to keep a range; double-click lets it go", this.parallel.node),
      h("div", { class: "hw-sweep-pair" }, figure("Front", "click a point to pick its trial; diamonds are the exact rule", this.front.node, this.x.node, this.y.node), this.detail),
      h("section", { class: "hw-card" }, h("div", { class: "hw-card-head" }, this.sliceTitle, h("span", { class: "hw-muted" }, "one knob at a time")), this.slices),
      h("div", { class: "hw-sweep-pair even" }, this.contourHead, figure(term("importance", "Importance"), "", this.bars.node)),
      h("section", { class: "hw-card" }, h("div", { class: "hw-card-head" }, h("h3", {}, "Best of the selected")), h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-sweep-ranking" }, h("thead", {}, this.rankHead), this.ranking))));
    model.on((changed) => this._changed(changed));
    onTheme(() => this.drawAll());
  }

  drawAll() {
    for (const surface of this._surfaces()) surface.later();
  }

  _surfaces() {
    return [{ later: () => this.parallel.later(), now: () => this.parallel.draw() }, this.front.surface, this.contour.surface, ...this.sliceCharts.map((chart) => chart.surface)];
  }

  _changed(changed) {
    const { model } = this;
    if (changed.has("data")) this._lay();
    if (changed.has("data") || changed.has("selection")) this._drawTools();
    if (changed.has("data") || changed.has("selection") || changed.has("picked")) {
      this._drawDetail();
      this._drawRanking();
    }
    // A brush is answered within the frame; hovering and new trials wait for the next one.
    for (const surface of this._surfaces()) {
      if (changed.has("selection") && !changed.has("data")) surface.now();
      else surface.later();
    }
    if (!model.rows.length) this.detail.replaceChildren();
  }

  _drawTools() {
    const { model } = this;
    this.goal.input.value = model.goal || "";
    this.top.value = model.top;
    setText(this.topText, `${model.top} %`);
    setText(this.count, `${model.count} of ${model.rows.length} trials selected`);
    this.reset.disabled = model.top === ALL && !model.brushes.size;
    setText(this.sliceTitle, `Slices: ${model.figure(model.goal).label}`);
  }

  /** New trials came: which axes there are to choose from. */
  _lay() {
    const { model } = this;
    const knobs = model.axes.filter((axis) => axis.maximize === null).map((axis) => [axis.name, axis.label]);
    const figures = model.figures.map((one) => [one.name, one.label]);
    const goals = model.goals.map((one) => one.name);
    this.goal.offer(figures, goals[0]);
    const two = goals.length > 1;
    this.x.offer([["number", "Trial"], ...figures, ...knobs], two ? goals[1] : "number");
    this.y.offer([...figures, ...knobs], goals[0]);
    const byImportance = Object.entries(model.importance[model.goal] || {}).sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const order = [...byImportance, ...knobs.map(([name]) => name)];
    const [first, second] = [...new Set(order)];
    this.a.offer(knobs, first);
    this.b.offer(knobs, second);
    this.contourHead.hidden = knobs.length < 2;
    const shown = this.sliceCharts.map((chart) => chart.knob).join();
    if (shown === knobs.map(([name]) => name).join()) return;
    this.sliceCharts = knobs.map(([name]) => {
      const chart = new Scatter(model, () => (model.goal ? [model.axis(name), model.axis(model.goal)] : null), { small: true, label: `Slice of ${name}` });
      chart.knob = name;
      return chart;
    });
    this.slices.replaceChildren(...this.sliceCharts.map((chart) => chart.node));
  }

  _pair(x, y) {
    return x.input.value && y.input.value ? [this.model.axis(x.input.value), this.model.axis(y.input.value)] : null;
  }

  _onFront() {
    const goals = this.model.goals.map((goal) => goal.name);
    return goals.includes(this.x.input.value) && goals.includes(this.y.input.value);
  }

  /** The picked trial, or the best: what it is set to, what it gave, and the way to use it. */
  _drawDetail() {
    const { model } = this;
    const row = model.shown;
    if (!row) {
      this.detail.replaceChildren(h("p", { class: "hw-muted" }, "No trial may be recommended yet."));
      return;
    }
    const title = row.reference ? "Exact rule" : `Trial ${row.number}`;
    const marks = [row.number === model.best ? "best" : null, model.front.has(row.number) && model.goals.length > 1 ? "on the front" : null, row.contended ? "contended" : null].filter(Boolean);
    const settings = Object.entries(row.settings).map(([name, value]) => [label(model, name), typeof row.values[name] === "number" ? short(row.values[name]) : value]);
    const figures = model.figures.filter((one) => row.figures[one.name] !== undefined).map((one) => [term(one.metric, one.label), short(row.figures[one.name])]);
    const pairs = (entries) => h("dl", {}, entries.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    const approximate = row.settings.rule === "typical" ? h("p", { class: "hw-warn" }, "Approximate: typical acceptance changes the output.") : null;
    const much = row.feasible ? null : h("p", { class: "hw-warn" }, "More drift than was allowed.");
    this.detail.replaceChildren(h("div", { class: "hw-card-head" }, h("h3", {}, title), marks.map((mark) => h("span", { class: "hw-best" }, mark)), h("span", { class: "hw-grow" }),
      model.picked !== null ? h("button", { type: "button", class: "hw-small", onclick: () => model.pick(null) }, "Show the best") : null),
    approximate || "", much || "", h("h4", {}, "Settings"), pairs(settings), h("h4", {}, "Measured"), pairs(figures),
    row.live ? h("a", { class: "hw-primary", href: row.live }, "Use this setting") : "");
  }

  _drawRanking() {
    const { model } = this;
    const columns = model.axes.map((axis) => axis.name);
    this.rankHead.replaceChildren(h("th", { scope: "col" }, "Trial"), ...columns.map((name) => h("th", { scope: "col" }, label(model, name))));
    this.ranking.replaceChildren(...model.ranked().slice(0, LISTED).map((row) => h("tr", { "aria-selected": String(model.shown === row), "data-trial": row.number },
      h("th", { scope: "row" }, h("button", { type: "button", class: "hw-linkish", onclick: () => model.pick(row.number) }, row.reference ? "exact" : String(row.number))),
      columns.map((name) => h("td", {}, short(model.value(row, name)))))));
  }
}

function label(model, name) {
  const axis = model.axes.find((one) => one.name === name) || model.figures.find((one) => one.name === name);
  const words = { epsilon: "ε", delta: "δ", rule: "Acceptance rule", max_depth: "Depth", drafter: "Drafter", tree: "Tree", temperature: "Temperature", batch: "Batch", sampled: "Sampled siblings" };
  return axis ? axis.label : words[name] || name.replaceAll("_", " ");
}

function figure(title, note, content, ...tools) {
  return h("section", { class: "hw-card" }, h("div", { class: "hw-card-head" }, h("h3", {}, title), h("span", { class: "hw-muted" }, note), h("span", { class: "hw-grow" }), tools), content);
}

/** A list to choose from; what was chosen stays while it is offered. */
function choice(text, changed) {
  let touched = false;
  const input = h("select", { onchange: () => {
    touched = true;
    changed();
  } });
  const node = h("label", { class: "hw-sweep-choice" }, h("span", { class: "hw-label" }, text), input);
  let known = "";
  return {
    node, input,
    offer(options, first) {
      const now = JSON.stringify([options, first]);
      if (now === known) return;
      known = now;
      const before = touched ? input.value : "";
      input.replaceChildren(...options.map(([value, text_]) => h("option", { value }, text_)));
      touched = options.some(([value]) => value === before);
      input.value = touched ? before : first || (options[0] || [""])[0];
    },
  };
}
