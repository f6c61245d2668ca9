// The right side of the Trees page: which calibration and cost curve are looked at, the jobs that make new ones, and what
// follows: the best tree for a budget of nodes, hits, costs, confidence.
//
// value: {plotly, jobs: ids started just now, error, at, text: a command or a file that was asked for}. Triggers begin (calibrate and measure, small), measure {model,
// drafter, tree, batch, temperature} (an evaluation of one tree) and keep {form: start, command or yaml; calibration, cost,
// batch, temperature, category} (a tuning job that stores the best tree).
// All tree sizes of all batches come at once; what is dragged and clicked is drawn here without asking again.

import { h, setText } from "../dom.js";
import { ago, jobList } from "../job_card.js";
import { isOpen } from "../jobs.js";
import { mountPage } from "../shown_job.js";
import { bestTree } from "../trees_best.js";
import { confidenceCard, costCard, hitsCard, servingCard } from "../trees_cards.js";
import { textBox } from "./command.js";

const KINDS = ["calibrate", "cost", "tune-tree"];

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed, gradio));
}

class Page {
  constructor(feed, { trigger }) {
    this.feed = feed;
    this.trigger = trigger;
    this.choices = null;
    this.data = null;
    this.at = null;
    this.drawnMs = []; // how long following the budget took, for tests and for the curious
    const address = new URL(window.location.href).searchParams;
    this.chosen = { calibration: address.get("calibration"), cost: address.get("cost"), temperature: null, category: "" };
    this.job = address.get("job"); // a job whose card led here
    this._ended = "";
    this.problem = h("p", { class: "hw-banner", "data-kind": "error", role: "alert", hidden: true });
    const start = h("button", { type: "button", class: "hw-primary", onclick: () => trigger("begin", {}) }, "Calibrate and measure");
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Which tree is the fastest on this machine?"),
      h("p", {}, "Two things decide: how often the drafter's guesses are right, and what a longer pass costs here. ",
        "Headway measures both and searches all trees for the one that gives the most tokens a second."),
      h("ol", {}, h("li", {}, h("b", {}, "Calibrate: "), "the target answers held-out prompts, and every guess is held against the answer."),
        h("li", {}, h("b", {}, "Measure the cost: "), "passes of many sizes are timed in turns on this device."),
        h("li", {}, h("b", {}, "Choose: "), "drag the number of nodes and see tree, length and speed follow.")),
      start);
    this.open = jobList(feed, (row) => [...KINDS, "evaluate"].includes(row.kind) && isOpen(row), (count) => this._jobsDrawn(count));
    this.jobs = h("section", { class: "hw-card", hidden: true }, h("h3", {}, "Under way"), this.open.node);
    this.calibration = picker("Calibration", (id) => this._choose({ calibration: id, temperature: null, category: "" }));
    this.cost = picker("Cost curve", (id) => this._choose({ cost: id }));
    this.temperature = picker("Temperature", (value) => this._choose({ temperature: value }));
    this.category = picker("Domain", (value) => this._choose({ category: value }));
    this.chooser = h("section", { class: "hw-card hw-trees-chooser", hidden: true },
      [this.calibration, this.cost, this.temperature, this.category].map((one) => one.node));
    this.text = textBox();
    this.keptList = h("ul", { class: "hw-trees-kept" });
    this.keptCard = h("section", { class: "hw-card", hidden: true }, h("h3", {}, "Trees that were kept"), this.keptList);
    this.state = h("p", { class: "hw-nothing", hidden: true });
    this.stage = h("div", { class: "hw-trees-stage" });
    this.node = h("div", { class: "hw-trees" }, this.problem, this.welcome, this.jobs, this.chooser, this.state, this.stage, this.keptCard);
    feed.on((changed) => { if (changed.has("jobs")) this._follow(); });
    new MutationObserver(() => this._draw()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this._list();
  }

  take(value) {
    if (!value || value.at === undefined || value.at === this.at) return;
    this.at = value.at;
    this._say(value.error);
    this.text.show(value.text || "");
    if (value.jobs && value.jobs.length) this.welcome.hidden = true;
  }

  _say(sentence) {
    setText(this.problem, sentence || "");
    this.problem.hidden = !sentence;
  }

  _jobsDrawn(count) {
    if (this.jobs) this.jobs.hidden = !count;
  }

  /** A job of ours has ended: there may be something new to choose. */
  _follow() {
    this._jobsDrawn(this.open.node.children.length);
    const ended = (this.feed.jobs || []).filter((row) => [...KINDS, "evaluate"].includes(row.kind) && row.status === "finished").map((row) => row.id).join(" ");
    if (this.choices === null || ended === this._ended) return;
    this._ended = ended;
    this._shown = null; // an evaluation may have something to say of a tree that is shown
    this._list();
  }

  async _list() {
    try {
      this.choices = await this.feed.ask("/headway/trees");
    } catch (error) {
      this._say(error.message);
      return;
    }
    const { calibrations, costs, tuned, running } = this.choices;
    this.keptList.replaceChildren(...tuned.map(keptLine));
    this.keptCard.hidden = !tuned.length;
    const kept = tuned.find((one) => one.id === this.job);
    if (kept) {
      Object.assign(this.chosen, { calibration: kept.calibration, cost: kept.cost });
      this.job = null;
    }
    this.welcome.hidden = calibrations.length > 0 || running > 0;
    this.chooser.hidden = !calibrations.length;
    this.state.hidden = calibrations.length > 0 || !running;
    setText(this.state, "What can be tuned appears here when the calibration is finished.");
    if (calibrations.some((one) => one.id === this.job)) this.chosen.calibration = this.job;
    if (costs.some((one) => one.id === this.job)) this.chosen.cost = this.job;
    if (!calibrations.some((one) => one.id === this.chosen.calibration)) this.chosen.calibration = calibrations.length ? calibrations[0].id : null;
    const now = calibrations.find((one) => one.id === this.chosen.calibration);
    if (!costs.some((one) => one.id === this.chosen.cost)) {
      const fits = now && costs.find((one) => one.target === now.target && one.drafter === now.drafter);
      this.chosen.cost = fits ? fits.id : null;
    }
    if ([...calibrations, ...costs].some((one) => one.id === this.job)) this.job = null;
    this._drawChooser();
    if (this.chosen.calibration) this._load();
  }

  _choose(change) {
    Object.assign(this.chosen, change);
    this._load();
  }

  async _load() {
    const { calibration, cost, temperature, category } = this.chosen;
    const query = new URLSearchParams({ calibration });
    if (cost) query.set("cost", cost);
    if (temperature !== null && temperature !== "") query.set("temperature", temperature);
    if (category) query.set("category", category);
    const key = query.toString();
    if (key === this._shown) return;
    this._wanted = key;
    this.state.hidden = this.data !== null;
    setText(this.state, "Searching…");
    try {
      const data = await this.feed.ask(`/headway/trees/view?${key}`);
      if (key !== this._wanted) return;
      this._shown = key;
      this.data = data;
      this._say(null);
      const address = new URL(window.location.href);
      if (this.job === null) address.searchParams.delete("job");
      for (const name of ["calibration", "cost"]) {
        if (this.chosen[name]) address.searchParams.set(name, this.chosen[name]);
        else address.searchParams.delete(name);
      }
      window.history.replaceState(null, "", address);
    } catch (error) {
      if (key !== this._wanted) return;
      this.data = null;
      this._shown = null;
      this._say(error.message);
    }
    this.state.hidden = true;
    this._drawChooser();
    this._draw();
  }

  _drawChooser() {
    const { calibrations, costs } = this.choices || { calibrations: [], costs: [] };
    const told = (one) => [one.id, `${one.label} · ${one.note}${one.at ? ` · ${ago(one.at)}` : ""}`];
    this.calibration.offer(calibrations.map(told), this.chosen.calibration);
    this.cost.offer([["", costs.length ? "none: by length alone" : "none yet: measure one on the left"], ...costs.map(told)], this.chosen.cost || "");
    const about = this.data ? this.data.calibration : null;
    this.temperature.offer(about ? about.temperatures.map((t) => [String(t), String(t)]) : [], about ? String(about.temperature) : "");
    this.category.offer(about ? [["", "all"], ...about.categories.filter(Boolean).map((name) => [name, name])] : [], this.chosen.category);
    this.temperature.node.hidden = !about || about.temperatures.length < 2;
    this.category.node.hidden = !about || about.categories.filter(Boolean).length < 2;
  }

  _draw() {
    if (!this.data) {
      this.stage.replaceChildren();
      return;
    }
    const { data } = this;
    const cards = [data.problem ? h("p", { class: "hw-trees-problem", role: "alert" }, data.problem) : null];
    if (Object.keys(data.batches).length) cards.push(this._best());
    cards.push(hitsCard(data), costCard(data), confidenceCard(data), servingCard(data));
    this.stage.replaceChildren(...cards.filter(Boolean));
  }

  _best() {
    const kept = this._kept || { batch: "1", nodes: null };
    this._kept = kept;
    const { calibration, cost, category } = this.chosen;
    const keep = (wanted) => this.trigger("keep", { calibration, cost: this.data.cost ? cost : null, category, ...wanted });
    return bestTree(this.data, kept, { measure: (wanted) => this.trigger("measure", wanted), keep, text: this.text.node }, (ms) => {
      this.drawnMs.push(ms);
      if (this.drawnMs.length > 500) this.drawnMs.shift();
      window.headway.treesMs = this.drawnMs;
    });
  }
}

/** A tree that was kept, and where it goes from here. */
function keptLine(one) {
  return h("li", { "data-job": one.id }, h("b", {}, one.label), h("span", {}, one.note), h("small", { class: "hw-muted" }, one.at ? ago(one.at) : ""),
    one.nodes ? h("a", { class: "hw-small", href: `/export?tuned=${encodeURIComponent(one.id)}` }, "Export it") : null);
}

/** A labelled list to choose from. */
function picker(name, changed) {
  const select = h("select", { "aria-label": name, onchange: () => changed(select.value) });
  const node = h("label", { class: "hw-picker" }, h("span", { class: "hw-label" }, name), select);
  const offer = (options, value) => {
    select.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
    select.value = value;
  };
  return { node, offer };
}
