// Scatter plots, slices, the contour and the bars of importance of a sweep. All draw the same selection and pick the same
// trial. Pure drawing: which charts there are is the view's choice.

import { h, setText } from "./dom.js";
import { Surface, colours, drawAxes, ramp } from "./sweep_canvas.js";
import { short } from "./sweep_model.js";

const FIELD = { left: 62, right: 14, top: 26, bottom: 40 };
const HIT = 11; // pixels from a point that a click may miss it by
const BANDS = 9; // of the contour
const WIDTH = 0.11; // of the contour's smoothing, in parts of an axis

/** A chart of points. `axes()` gives [x, y] axes or null; `front`: draw what nothing beats; `under`: drawn before the points. */
export class Scatter {
  constructor(model, axes, { front = () => false, under = null, label = "Trials", small = false, titles = true } = {}) {
    Object.assign(this, { model, axes, front, under, small, titles });
    this.tip = h("div", { class: "hw-sweep-tip", hidden: true, role: "status" });
    this.surface = new Surface((context, width, height) => this.paint(context, width, height), { role: "img", "aria-label": label });
    this.node = h("div", { class: "hw-scatter" }, this.surface.canvas, this.tip);
    const { canvas } = this.surface;
    canvas.addEventListener("pointermove", (event) => this.over(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("click", (event) => {
      const near = this.nearest(...this.surface.at(event));
      if (near) model.pick(near.row.number);
    });
  }

  box(width, height) {
    return { left: FIELD.left, right: width - FIELD.right, top: FIELD.top, bottom: height - FIELD.bottom };
  }

  point(row, [x, y], box) {
    const across = x.place(x.name === "number" ? row.number : this.model.value(row, x.name));
    const up = y.place(this.model.value(row, y.name));
    if (across === null || up === null) return null;
    return [box.left + across * (box.right - box.left), box.bottom - up * (box.bottom - box.top)];
  }

  paint(context, width, height) {
    const axes = this.axes();
    const theme = colours();
    if (!axes) return;
    const { model } = this;
    const box = this.box(width, height);
    if (this.under) this.under(context, box, axes, theme);
    drawAxes(context, box, ...axes, theme, { titles: this.titles });
    if (this.front()) this.drawFront(context, axes, box, theme);
    const size = this.small ? 2.6 : model.rows.length > 600 ? 3 : 4.2;
    for (const wanted of [0, 1]) {
      model.rows.forEach((row, index) => {
        if (Number(model.selected[index]) !== wanted) return;
        const at = this.point(row, axes, box);
        if (at) this.dot(context, row, at, size, wanted ? ramp(model.goodness(row), theme.dark, 0.95) : theme.faint, theme, wanted);
      });
    }
    for (const number of [model.hovered, model.shown ? model.shown.number : null]) {
      const row = model.trials.get(number);
      const at = row && row.state === "finished" && this.point(row, axes, box);
      if (!at) continue;
      context.strokeStyle = theme.text;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(...at, size + 3, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /** References are diamonds, trials with too much drift are rings: shape tells as well as colour. */
  dot(context, row, [x, y], size, colour, theme, selected) {
    context.beginPath();
    if (row.reference) {
      context.moveTo(x, y - size - 3);
      context.lineTo(x + size + 3, y);
      context.lineTo(x, y + size + 3);
      context.lineTo(x - size - 3, y);
      context.closePath();
    } else context.arc(x, y, size, 0, 2 * Math.PI);
    context.lineWidth = 1.5;
    if (row.feasible) {
      context.fillStyle = row.reference && selected ? theme.card : colour;
      context.fill();
      context.strokeStyle = row.reference && selected ? theme.text : theme.card;
      context.lineWidth = row.reference ? 1.8 : 0.7;
    } else context.strokeStyle = colour;
    context.stroke();
  }

  drawFront(context, axes, box, theme) {
    const points = this.model.rows.filter((row) => this.model.front.has(row.number)).map((row) => this.point(row, axes, box)).filter(Boolean).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (points.length < 2) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.6;
    context.beginPath();
    points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }

  nearest(x, y) {
    const axes = this.axes();
    if (!axes) return null;
    const box = this.box(this.surface.width, this.surface.height);
    let best = null;
    this.model.rows.forEach((row, index) => {
      const at = this.model.selected[index] ? this.point(row, axes, box) : null;
      const away = at ? Math.hypot(at[0] - x, at[1] - y) : Infinity;
      if (away < (best ? best.away : HIT)) best = { row, at, away };
    });
    return best;
  }

  over(event) {
    const near = this.nearest(...this.surface.at(event));
    this.surface.canvas.style.cursor = near ? "pointer" : "default";
    this.model.hover(near ? near.row.number : null);
    this.tip.hidden = !near;
    if (!near) return;
    const [x, y] = this.axes();
    const name = near.row.reference ? "Exact rule" : `Trial ${near.row.number}`;
    const values = [x, y].filter((axis) => axis.name !== "number").map((axis) => `${axis.label} ${short(this.model.value(near.row, axis.name))}`);
    setText(this.tip, [name, ...values].join(" · "));
    const left = Math.min(near.at[0] + 12, this.surface.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, near.at[1] - 34)}px`;
  }

  leave() {
    this.tip.hidden = true;
    this.model.hover(null);
  }
}

/** A field of colour under points: the mean of the trials around, weighted by a Gaussian of their distance, in bands. */
export function contourUnder(model) {
  return (context, box, [x, y], theme) => {
    const points = [];
    model.rows.forEach((row, index) => {
      const [across, up, good] = [x.place(model.value(row, x.name)), y.place(model.value(row, y.name)), model.goodness(row)];
      if (model.selected[index] && across !== null && up !== null && good !== null) points.push([across, up, good]);
    });
    if (points.length < 3) return;
    const [columns, rows] = [48, 32];
    const kernel = gaussians(points, columns, rows);
    const [wide, high] = [(box.right - box.left) / columns, (box.bottom - box.top) / rows];
    for (let column = 0; column < columns; column += 1) {
      for (let row = 0; row < rows; row += 1) {
        const { mean, weight } = kernel(column, row);
        if (weight < 0.02) continue; // nobody has been near
        context.fillStyle = ramp((Math.floor(mean * BANDS) + 0.5) / BANDS, theme.dark, 0.55);
        // Whole pixels, so that neighbours neither overlap nor leave a seam.
        const [left, right] = [Math.round(box.left + column * wide), Math.round(box.left + (column + 1) * wide)];
        const [top, bottom] = [Math.round(box.bottom - (row + 1) * high), Math.round(box.bottom - row * high)];
        context.fillRect(left, top, right - left, bottom - top);
      }
    }
  };
}

/** (column, row) -> {mean, weight}; the Gaussian is a product, so each point costs columns + rows exponentials only. */
function gaussians(points, columns, rows) {
  const bell = (at, count) => Float64Array.from({ length: count }, (_, index) => Math.exp(-(((index + 0.5) / count - at) ** 2) / (2 * WIDTH ** 2)));
  const sums = new Float64Array(columns * rows);
  const weights = new Float64Array(columns * rows);
  for (const [x, y, value] of points) {
    const [across, up] = [bell(x, columns), bell(y, rows)];
    for (let column = 0; column < columns; column += 1) {
      for (let row = 0; row < rows; row += 1) {
        const weight = across[column] * up[row];
        sums[column * rows + row] += weight * value;
        weights[column * rows + row] += weight;
      }
    }
  }
  return (column, row) => {
    const weight = weights[column * rows + row];
    return { mean: Math.min(0.9999, Math.max(0, sums[column * rows + row] / weight)), weight };
  };
}

/** Bars: how much of the chosen figure's variance each knob explains alone. */
export function importanceBars(model) {
  const list = h("ul", { class: "hw-importance" });
  const note = h("p", { class: "hw-muted" });
  const draw = () => {
    const found = Object.entries(model.importance[model.goal] || {}).sort((a, b) => b[1] - a[1]);
    list.replaceChildren(...found.map(([name, share]) => {
      const bar = h("i", {});
      bar.style.width = `${(100 * share).toFixed(1)}%`;
      const axis = model.axes.find((one) => one.name === name);
      return h("li", {}, h("span", {}, axis ? axis.label : name), h("span", { class: "hw-importance-bar" }, bar), h("span", { class: "hw-importance-share" }, `${Math.round(100 * share)} %`));
    }));
    setText(note, found.length ? `Method: ${model.method}. Measured over all finished trials.` : "Known after four trials that differ.");
  };
  model.on((changed) => { if (changed.has("data") || changed.has("selection")) draw(); });
  return { node: h("div", {}, list, note), draw };
}
