// A small line chart as SVG: curves over one axis, marks on them, one tick text each. Colours and dashes tell curves
// apart, so that colour alone never has to. Knows no figure.

import { s } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 250;
const EDGE = { left: 64, right: 16, top: 14, bottom: 42 };

/**
 * curves: [{points: [[x, y]], name, kind: "main" | "second" | "third" | "fourth" | "limit"}]; marks: [{x, y, text}];
 * points: [{x, y, inside}], filled where they are inside of what the curve bounds.
 * x, y: {label, from, to, ticks: [number], text(number), log}
 */
export function lineChart({ curves, marks = [], points = [], x, y, label }) {
  const across = scale(x, EDGE.left, WIDTH - EDGE.right);
  const up = scale(y, HEIGHT - EDGE.bottom, EDGE.top);
  const parts = [];
  for (const tick of y.ticks) {
    parts.push(s("line", { class: "grid", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: up(tick), y2: up(tick) }),
      s("text", { class: "tick end", x: EDGE.left - 8, y: up(tick) + 4 }, y.text(tick)));
  }
  for (const tick of x.ticks) parts.push(s("text", { class: "tick middle", x: across(tick), y: HEIGHT - EDGE.bottom + 18 }, x.text(tick)));
  parts.push(s("text", { class: "axis middle", x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 6 }, x.label),
    s("text", { class: "axis middle", transform: `translate(13 ${(EDGE.top + HEIGHT - EDGE.bottom) / 2}) rotate(-90)` }, y.label));
  const within = (value, axis) => Math.min(Math.max(value, axis.from), axis.to);
  for (const point of points) parts.push(s("circle", { class: `point${point.inside ? " inside" : ""}`, cx: across(within(point.x, x)).toFixed(1), cy: up(within(point.y, y)).toFixed(1), r: 2.6 }));
  for (const curve of curves) {
    const inside = curve.points.map(([a, b]) => [across(a), up(Math.min(Math.max(b, y.from), y.to))]);
    parts.push(s("polyline", { class: `curve ${curve.kind}`, points: inside.map((point) => point.map((v) => v.toFixed(1)).join(",")).join(" ") },
      s("title", {}, curve.name)));
    if (curve.dots) for (const [a, b] of inside) parts.push(s("circle", { class: `dot ${curve.kind}`, cx: a, cy: b, r: 3 }));
  }
  for (const mark of marks) {
    const [a, b] = [across(mark.x), up(Math.min(Math.max(mark.y, y.from), y.to))];
    const right = a > WIDTH * 0.7;
    parts.push(s("circle", { class: "mark", cx: a, cy: b, r: 6 }),
      s("text", { class: `marked ${right ? "end" : ""}`, x: a + (right ? -11 : 11), y: b < 40 ? b + 18 : b - 10 }, mark.text));
  }
  return s("svg", { class: "hw-lines", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, parts);
}

export function legend(entries, h) {
  return h("ul", { class: "hw-lines-legend" }, entries.map(([kind, name]) => h("li", {},
    s("svg", { class: "hw-lines", viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" }, s("line", { class: `curve ${kind}`, x1: 1, x2: 25, y1: 4, y2: 4 })), name)));
}

/** Nice steps from 0 or `from` to at least `to`. */
export function ticks(from, to, about = 5) {
  const rough = (to - from) / about;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * size).find((part) => part >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) found.push(Number(at.toPrecision(6)));
  return found;
}

function scale({ from, to, log }, start, end) {
  const bend = log ? Math.log2 : (value) => value;
  const [low, high] = [bend(from), bend(to)];
  return (value) => start + ((bend(value) - low) / (high - low || 1)) * (end - start);
}
