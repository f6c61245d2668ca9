// The curves of a job: one chart a kind of number, one colour a head, all over the same steps. What a person zoomed to,
// smoothed or switched off stays as it is while points come in. value: {plotly: address of the chart library}

import { Chart, colourOf, loadPlotly } from "../charts.js";
import { h, setText } from "../dom.js";
import { curveName, placeOf, wordsOf } from "../metrics.js";
import { term } from "../terms.js";
import { trainer } from "../train.js";

const DRAW_MS = 250; // at most four redraws a second
const CHARTS = [
  { name: "loss", title: "Loss", metric: "loss", note: "of each depth; dashed: held-out", log: true },
  { name: "accuracy", title: "Held-out accuracy", metric: "top_k_hit", note: "the right token is among the best of its depth", percent: true },
  { name: "acceptance", title: "Acceptance", metric: "acceptance_conditional", note: "when decoding held-out prompts; dashed: best guesses on held-out answers", percent: true },
  { name: "length", title: "Acceptance length", metric: "acceptance_length", note: "tokens a step when decoding held-out prompts" },
  { name: "rate", title: "Learning rate", metric: "learning_rate", note: "", format: ".3~e" },
  { name: "more", title: "More", note: "", format: ".4~g" },
];
const SMOOTHED = new Set(["loss", "more"]); // what jumps from step to step; measured curves have few, true points
const USUAL_SMOOTHING = 0.8;
const ORDER = { top1: 1, top2: 2, top3: 3, top5: 5 };

export function mount(element, feed, { props, watch }) {
  const train = trainer(feed);
  const board = new Board(element, props);
  train.charts = board;
  train.on((changed) => {
    if (changed.has("job")) board.show(train.metrics);
    if (changed.has("metrics")) board.changed();
  });
  watch("value", () => board.changed());
}

/** All charts of the job that is shown. */
export class Board {
  constructor(element, props) {
    this.props = props;
    this.zoom = { x: null };
    this.hidden = new Set(); // heads that are switched off
    this.metrics = null;
    this.cards = new Map();
    this.drawnMs = []; // how long redraws took, for tests and for the curious
    this._names = 0;
    this._timer = null;
    this._last = 0;
    this._build(element);
    new MutationObserver(() => this.changed()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    document.addEventListener("visibilitychange", () => this.changed());
  }

  show(metrics) {
    this.metrics = metrics;
    metrics.setSmoothing(Number(this.smoothing.value));
    this.zoom.x = null;
    this._names = 0;
    for (const card of this.cards.values()) card.clear();
    this.changed();
  }

  /** Draws soon, and never more often than needed. */
  changed() {
    if (this._timer !== null || !this.metrics) return;
    const wait = Math.max(0, this._last + DRAW_MS - performance.now());
    this._timer = setTimeout(() => {
      this._timer = null;
      this.draw();
    }, wait);
  }

  async draw() {
    const empty = !this.metrics || !this.metrics.series.size;
    this.root.hidden = empty;
    if (empty || document.hidden) return;
    const address = (this.props.value || {}).plotly;
    if (!address) return;
    let plotly = window.Plotly;
    if (!plotly) {
      try {
        plotly = await loadPlotly(address);
      } catch {
        setText(this.note, "The chart library could not be fetched; reload the page.");
        return;
      }
    }
    this.drawNow(plotly);
  }

  drawNow(plotly) {
    const started = performance.now();
    if (this.metrics.series.size !== this._names) this._lay(plotly);
    let all = true;
    for (const card of this.cards.values()) all = card.draw(this.hidden) && all;
    this._last = performance.now();
    this.drawnMs.push(this._last - started);
    if (this.drawnMs.length > 2000) this.drawnMs.splice(0, 1000);
    if (!all) this.changed(); // a zoom box was being dragged
  }

  /** New names came: which curves there are, in which chart. */
  _lay(plotly) {
    this._names = this.metrics.series.size;
    const byChart = new Map();
    const heads = new Set();
    for (const [name, series] of this.metrics.series) {
      const place = placeOf(name);
      if (!place) continue;
      if (place.head !== null) heads.add(place.head);
      if (!byChart.has(place.chart)) byChart.set(place.chart, []);
      byChart.get(place.chart).push({ key: name, name: curveName(name, place), series, place, dashed: place.dashed, smooth: SMOOTHED.has(place.chart) && !place.dashed, colour: place.head ?? 7, shown: true });
    }
    for (const [name, card] of this.cards) card.take(plotly, byChart.get(name) || []);
    this._layHeads([...heads].sort((a, b) => a - b));
  }

  _layHeads(heads) {
    this.heads.hidden = heads.length < 2;
    const dark = document.body.classList.contains("dark");
    this.heads.replaceChildren(h("span", { class: "hw-label" }, "Depths"), ...heads.map((head) => {
      const swatch = h("i");
      swatch.style.background = colourOf(head, dark);
      const button = h("button", { type: "button", class: "hw-head", "aria-pressed": String(!this.hidden.has(head)), "aria-label": `Depth ${head + 1}`, title: "Show or hide this depth" }, swatch, String(head + 1));
      button.addEventListener("click", () => {
        if (!this.hidden.delete(head)) this.hidden.add(head);
        button.setAttribute("aria-pressed", String(!this.hidden.has(head)));
        this.changed();
      });
      return button;
    }));
  }

  _build(element) {
    const smoothing = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: USUAL_SMOOTHING, id: "hw-smoothing" });
    const shownWeight = h("output", { for: "hw-smoothing" }, USUAL_SMOOTHING.toFixed(2));
    smoothing.addEventListener("input", () => {
      setText(shownWeight, Number(smoothing.value) ? Number(smoothing.value).toFixed(2) : "off");
      if (this.metrics) this.metrics.setSmoothing(Number(smoothing.value));
      this.changed();
    });
    this.smoothing = smoothing;
    this.reset = h("button", { type: "button", class: "hw-small", hidden: true, onclick: () => this._zoom(null) }, "Show all steps");
    this.heads = h("span", { class: "hw-heads", hidden: true });
    this.note = h("span", { class: "hw-muted" }, "Drag to zoom, double-click to see all.");
    const tools = h("div", { class: "hw-chart-tools" }, this.heads,
      h("label", { class: "hw-smoothing", for: "hw-smoothing" }, h("span", { class: "hw-label" }, "Smoothing"), smoothing, shownWeight),
      h("span", { class: "hw-grow" }), this.note, this.reset);
    const grid = h("div", { class: "hw-chart-grid" });
    for (const chart of CHARTS) {
      const card = new Card(chart, this.zoom, (range) => this._zoom(range), () => this.changed());
      this.cards.set(chart.name, card);
      grid.append(card.node);
    }
    this.root = h("section", { class: "hw-card hw-charts", hidden: true, "aria-label": "Curves" }, tools, grid);
    element.replaceChildren(this.root);
  }

  _zoom(range) {
    this.zoom.x = range;
    if (!range) for (const card of this.cards.values()) card.unzoom();
    this.reset.hidden = !range && ![...this.cards.values()].some((card) => card.zoomed);
    this.changed();
  }
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** One chart with its title, its newest values and its own switches. */
class Card {
  constructor(settings, zoom, onZoom, changed) {
    this.settings = settings;
    this.zoom = zoom;
    this.onZoom = onZoom;
    this.curves = [];
    this.chart = null;
    this.variant = null;
    this.plot = h("div", { class: "hw-plot", "data-chart": settings.name });
    this.select = h("select", { "aria-label": "Which numbers", hidden: true, onchange: () => {
      this.variant = this.select.value;
      this.unzoom();
      changed();
    } });
    const log = h("input", { type: "checkbox", "aria-label": `${settings.title}: logarithmic`, onchange: () => {
      if (this.chart) this.chart.setLog(log.checked);
      changed();
    } });
    this.log = log;
    this.title = h("h3", null, settings.metric ? term(settings.metric, settings.title) : settings.title);
    this.node = h("figure", { class: "hw-chart", hidden: true },
      h("figcaption", null, this.title, h("span", { class: "hw-muted" }, settings.note), h("span", { class: "hw-grow" }),
        this.select, settings.log ? h("label", { class: "hw-logarithmic" }, log, "log") : null),
      this.plot);
  }

  get zoomed() {
    return Boolean(this.chart && this.chart.yRange);
  }

  clear() {
    this.curves = [];
    this.node.hidden = true;
    this.unzoom();
  }

  unzoom() {
    if (this.chart) this.chart.yRange = null;
  }

  take(plotly, curves) {
    this.curves = curves;
    this.node.hidden = !curves.length;
    if (!curves.length) return;
    const { zoom, onZoom, settings } = this;
    if (!this.chart) this.chart = new Chart(this.plot, plotly, { zoom, onZoom, format: settings.format, percent: settings.percent });
    this.chart.setLog(this.log.checked);
    this._offer([...new Set(curves.map((curve) => curve.place.variant).filter(Boolean))]);
  }

  _offer(variants) {
    variants.sort((a, b) => (ORDER[a] || 99) - (ORDER[b] || 99) || a.localeCompare(b));
    this.select.hidden = variants.length < 2;
    if (this.settings.name === "more" && variants.length === 1) setText(this.title, capital(wordsOf(variants[0])));
    if (!variants.includes(this.variant)) this.variant = variants[0] || null;
    this.select.replaceChildren(...variants.map((variant) => h("option", { value: variant }, capital(wordsOf(variant.replace(/^top(\d)$/, "top-$1"))))));
    if (this.variant) this.select.value = this.variant;
  }

  draw(hidden) {
    if (!this.chart || !this.curves.length) return true;
    for (const curve of this.curves) {
      const chosen = !curve.place.variant || curve.place.variant === this.variant;
      curve.shown = chosen && !(curve.place.head !== null && hidden.has(curve.place.head));
      if (curve.place.chart === "more") curve.name = wordsOf(curve.key);
    }
    // The loss of all heads together has another scale than each head's; with heads there it would only flatten them.
    const withHeads = this.settings.name === "loss" && this.curves.some((curve) => curve.place.head !== null);
    this.chart.curves = withHeads ? this.curves.filter((curve) => curve.place.head !== null) : this.curves;
    return this.chart.draw();
  }
}
