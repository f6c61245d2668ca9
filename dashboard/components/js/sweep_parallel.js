// Parallel coordinates: a line a trial through its value on every axis. Drag along an axis to keep a range of it, double-
// click to let it go; click a line to pick its trial.

import { h } from "./dom.js";
import { Surface, colours, cut, ramp, say } from "./sweep_canvas.js";
import { short } from "./sweep_model.js";

const TOP = 46;
const BOTTOM = 26;
const SIDE = 54;
const NEAR = 26; // pixels beside an axis that belong to it
const CLICK = 4; // pixels a click may move

export function parallel(model) {
  const chart = new Parallel(model);
  return { node: chart.node, draw: () => chart.surface.now(), later: () => chart.surface.later() };
}

class Parallel {
  constructor(model) {
    this.model = model;
    this.drag = null; // {axis, from, to} while a range is being drawn
    this.surface = new Surface((context, width, height) => this.paint(context, width, height), { class: "hw-canvas hw-parallel", role: "img", "aria-label": "Parallel coordinates: one line a trial" });
    this.chips = h("div", { class: "hw-sweep-brushes", "aria-label": "Brushed axes" });
    this.node = h("div", {}, h("div", { class: "hw-parallel-scroll" }, this.surface.canvas), this.chips);
    const { canvas } = this.surface;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => model.hover(null));
    canvas.addEventListener("dblclick", (event) => {
      const axis = this.axisAt(this.surface.at(event)[0]);
      if (axis) model.brush(axis.name, null);
    });
    model.on((changed) => { if (changed.has("selection")) this.listBrushes(); });
  }

  x(index, width) {
    const { length } = this.model.axes;
    return length < 2 ? width / 2 : SIDE + (index * (width - 2 * SIDE)) / (length - 1);
  }

  y(place, height) {
    return height - BOTTOM - place * (height - TOP - BOTTOM);
  }

  axisAt(x) {
    const near = this.model.axes.map((axis, index) => [Math.abs(this.x(index, this.surface.width) - x), axis]).sort((a, b) => a[0] - b[0])[0];
    return near && near[0] <= NEAR ? near[1] : null;
  }

  placeAt(y) {
    const { height } = this.surface;
    return Math.min(1, Math.max(0, (height - BOTTOM - y) / (height - TOP - BOTTOM)));
  }

  down(event) {
    const [x, y] = this.surface.at(event);
    const axis = this.axisAt(x);
    this.start = [x, y];
    if (!axis) return;
    this.drag = { axis, from: this.placeAt(y), to: this.placeAt(y) };
    this.surface.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const [x, y] = this.surface.at(event);
    if (!this.drag) {
      this.surface.canvas.style.cursor = this.axisAt(x) ? "ns-resize" : "pointer";
      this.model.hover(this.lineAt(x, y));
      return;
    }
    this.drag.to = this.placeAt(y);
    if (Math.abs(y - this.start[1]) > CLICK) this.keep();
  }

  up(event) {
    const [x, y] = this.surface.at(event);
    const moved = this.start && Math.hypot(x - this.start[0], y - this.start[1]) > CLICK;
    if (this.drag && moved) this.keep();
    else if (!moved) this.model.pick(this.lineAt(x, y));
    this.drag = null;
  }

  /** The range that is being drawn; on an axis of words it keeps the words it touches. */
  keep() {
    const { axis, from, to } = this.drag;
    let [low, high] = [Math.min(from, to), Math.max(from, to)];
    if (!axis.numeric) {
      const half = 0.5 / Math.max(1, axis.values.length - 1);
      [low, high] = [low - half * 0.6, high + half * 0.6];
    }
    this.model.brush(axis.name, [low, high]);
  }

  /** The number of the selected line nearest to a point, null when none is near. */
  lineAt(x, y) {
    const { model, surface: { width, height } } = this;
    const { axes, rows, selected } = model;
    let after = axes.findIndex((_axis, index) => this.x(index, width) >= x);
    if (after < 1) after = axes.length > 1 ? Math.max(1, after) : after;
    if (after < 1 || axes.length < 2) return null;
    const [left, right] = [this.x(after - 1, width), this.x(after, width)];
    const share = (x - left) / (right - left);
    let best = null;
    let nearest = 9;
    rows.forEach((row, index) => {
      if (!selected[index]) return;
      const a = axes[after - 1].place(model.value(row, axes[after - 1].name)) ?? -0.07;
      const b = axes[after].place(model.value(row, axes[after].name)) ?? -0.07;
      const away = Math.abs(this.y(a + (b - a) * share, height) - y);
      if (away < nearest) [nearest, best] = [away, row.number];
    });
    return best;
  }

  paint(context, width, height) {
    const { model } = this;
    const theme = colours();
    context.lineWidth = 1;
    context.lineJoin = "round";
    const many = model.count > 400;
    model.rows.forEach((row, index) => { if (!model.selected[index]) this.line(context, row, width, height, theme.faint); });
    model.rows.forEach((row, index) => {
      if (model.selected[index]) this.line(context, row, width, height, ramp(model.goodness(row), theme.dark, many ? 0.5 : 0.85), row.reference ? [5, 4] : []);
    });
    for (const [number, thick] of [[model.hovered, 2.5], [model.shown ? model.shown.number : null, 3]]) {
      const row = model.trials.get(number);
      if (!row || row.state !== "finished") continue;
      context.lineWidth = thick;
      this.line(context, row, width, height, theme.text);
    }
    model.axes.forEach((axis, index) => this.axis(context, axis, index, width, height, theme));
  }

  line(context, row, width, height, colour, dash = []) {
    const { axes } = this.model;
    context.strokeStyle = colour;
    context.setLineDash(dash);
    context.beginPath();
    axes.forEach((axis, index) => {
      const place = axis.place(this.model.value(row, axis.name)) ?? -0.07; // below the axis: it has no such value
      const [x, y] = [this.x(index, width), this.y(place, height)];
      if (index) context.lineTo(x, y);
      else context.moveTo(x, y);
    });
    context.stroke();
    context.setLineDash([]);
  }

  axis(context, axis, index, width, height, theme) {
    const x = Math.round(this.x(index, width)) + 0.5;
    const room = this.model.axes.length > 1 ? this.x(1, width) - this.x(0, width) : width;
    context.strokeStyle = theme.muted;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, this.y(0, height));
    context.lineTo(x, this.y(1, height));
    context.stroke();
    context.font = `600 12px ${theme.font}`;
    const title = cut(context, axis.label, room - 8);
    const better = axis.maximize === null ? "" : axis.maximize ? "↑ better" : "↓ better";
    say(context, title, x, 14, { colour: theme.text, size: 12, weight: 600, align: "center", font: theme.font });
    if (better) say(context, better, x, 29, { colour: theme.muted, align: "center", font: theme.font });
    const ticks = axis.ticks();
    const every = Math.ceil((ticks.length * 13) / (height - TOP - BOTTOM));
    ticks.forEach(({ at, text }, number) => {
      if (number % every) return;
      context.font = `500 11px ${theme.font}`;
      const shown = cut(context, text, room - 14);
      const y = this.y(at, height);
      context.fillStyle = theme.card;
      context.globalAlpha = 0.82;
      context.fillRect(x - 7 - context.measureText(shown).width, y - 7, context.measureText(shown).width + 3, 14);
      context.globalAlpha = 1;
      say(context, shown, x - 5, y, { colour: theme.text, align: "right", weight: 500, font: theme.font });
    });
    const range = this.model.brushes.get(axis.name);
    if (!range) return;
    const [low, high] = [Math.max(-0.04, range[0]), Math.min(1.04, range[1])];
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.28;
    context.fillRect(x - 7, this.y(high, height), 14, Math.max(2, this.y(low, height) - this.y(high, height)));
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.strokeRect(x - 7, this.y(high, height), 14, Math.max(2, this.y(low, height) - this.y(high, height)));
  }

  /** What is brushed, as buttons that let it go: works without a pointer too. */
  listBrushes() {
    const { model } = this;
    const chips = [...model.brushes].map(([name, range]) => {
      const axis = model.axes.find((one) => one.name === name);
      return axis && h("button", { type: "button", class: "hw-chip", title: "Let this range go", onclick: () => model.brush(name, null) }, `${axis.label}: ${rangeText(axis, range)} ✕`);
    });
    this.chips.replaceChildren(...chips.filter(Boolean));
  }
}

function rangeText(axis, [low, high]) {
  if (!axis.numeric) {
    const kept = axis.values.filter((value) => axis.place(value) >= low && axis.place(value) <= high);
    return kept.join(", ") || "none";
  }
  const value = (place) => {
    const at = Math.min(1, Math.max(0, place));
    return axis.log ? Math.exp(Math.log(axis.low) + at * (Math.log(axis.high) - Math.log(axis.low))) : axis.low + at * (axis.high - axis.low);
  };
  return `${short(value(low))} to ${short(value(high))}`;
}

