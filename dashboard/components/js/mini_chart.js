// A small chart as SVG: lines with measured points, dashed where extrapolated, bars of doubt, a marker. Drawn at once,
// without a library, so that it can follow a dragged slider. Pure: data in, an element out.

import { s } from "./dom.js";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#5a6472"];
const DARK = ["#56b4e9", "#f0894a", "#2fc79b", "#e39cc4", "#f0c060", "#9bc0ff", "#b79be0", "#aab3bf"];
const WIDTH = 460;
const HEIGHT = 230;
const LEFT = 46;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 36;

export function colour(index) {
  const list = document.body.classList.contains("dark") ? DARK : COLOURS;
  return list[index % list.length];
}

/**
 * `lines`: [{name, points: [{x, y, low, high, dashed, dot}], colour, dots (no line)}]; `marker`: {x, y} or null; `band`: draw low
 * to high of the first line as an area; `xLog`: a logarithmic x axis; `diagonal`: the line y = x.
 */
export function miniChart({ lines, xTitle, yTitle, marker = null, xLog = false, diagonal = false, band = false, xRange = null, yRange = null, label = "" }) {
  const points = lines.flatMap((line) => line.points);
  const xs = xRange || span(points.map((p) => p.x), xLog);
  const ys = yRange || span(points.flatMap((p) => [p.y, p.high ?? p.y, p.low ?? p.y]), false, true);
  const px = scale(xs, LEFT, WIDTH - RIGHT, xLog);
  const py = scale(ys, HEIGHT - BOTTOM, TOP, false);
  const parts = [axes(xs, ys, px, py, xLog, xTitle, yTitle)];
  if (diagonal) parts.push(s("path", { class: "diagonal", d: `M${px(xs[0])} ${py(xs[0])}L${px(xs[1])} ${py(xs[1])}` }));
  if (band && lines.length && lines[0].points.some((p) => p.low !== null && p.low !== undefined)) parts.push(area(lines[0].points, px, py));
  for (const line of lines) parts.push(drawLine(line, px, py));
  if (marker) parts.push(s("g", { class: "marker" }, s("path", { d: `M${px(marker.x)} ${TOP}V${HEIGHT - BOTTOM}` }), s("circle", { cx: px(marker.x), cy: py(marker.y), r: 5 })));
  return s("svg", { class: "hw-mini", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, parts);
}

function drawLine(line, px, py) {
  const group = s("g", { style: `color:${line.colour}` });
  for (let at = 1; at < line.points.length && !line.dots; at += 1) {
    const [a, b] = [line.points[at - 1], line.points[at]];
    group.append(s("path", { class: a.dashed || b.dashed ? "line dashed" : "line", d: `M${px(a.x)} ${py(a.y)}L${px(b.x)} ${py(b.y)}` }));
  }
  for (const point of line.points) {
    if (line.dots && point.low !== null && point.low !== undefined) group.append(s("path", { class: "doubt", d: `M${px(point.x)} ${py(point.low)}V${py(point.high)}` }));
    if (!point.dot) continue;
    group.append(s("circle", { class: "dot", cx: px(point.x), cy: py(point.y), r: point.size || 2.6 }, point.title ? s("title", {}, point.title) : null));
  }
  return group;
}

function area(points, px, py) {
  const known = points.filter((p) => p.low !== null && p.low !== undefined);
  const there = known.map((p) => `${px(p.x)} ${py(p.high)}`);
  const back = known.map((p) => `${px(p.x)} ${py(p.low)}`).reverse();
  return s("path", { class: "band", d: `M${[...there, ...back].join("L")}Z` });
}

function axes(xs, ys, px, py, xLog, xTitle, yTitle) {
  const group = s("g", { class: "axes" });
  for (const value of ticks(ys[0], ys[1])) {
    group.append(s("path", { class: "grid", d: `M${LEFT} ${py(value)}H${WIDTH - RIGHT}` }), s("text", { x: LEFT - 6, y: py(value) + 4, "text-anchor": "end" }, told(value)));
  }
  for (const value of xLog ? powers(xs[0], xs[1]) : ticks(xs[0], xs[1])) {
    group.append(s("text", { x: px(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, told(value)));
  }
  group.append(s("path", { class: "base", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    s("text", { class: "title", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, xTitle),
    s("text", { class: "title", x: -(TOP + HEIGHT - BOTTOM) / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle" }, yTitle));
  return group;
}

function span(values, log, fromNear = false) {
  const known = values.filter((value) => Number.isFinite(value));
  if (!known.length) return [0, 1];
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (log) return [low, high > low ? high : low * 2];
  if (fromNear) low = low > 0 && low < 0.6 * high ? 0 : low - 0.08 * (high - low || Math.abs(high) || 1);
  if (fromNear) high += 0.06 * (high - low || Math.abs(high) || 1);
  return [low, high > low ? high : low + 1];
}

function scale([low, high], from, to, log) {
  const place = log ? (value) => Math.log(value / low) / Math.log(high / low) : (value) => (value - low) / (high - low);
  return (value) => Math.round(10 * (from + (to - from) * place(value))) / 10;
}

function ticks(low, high) {
  const raw = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) found.push(Number(value.toFixed(10)));
  return found;
}

function powers(low, high) {
  const found = [];
  for (let value = 1; value <= high; value *= 2) if (value >= low) found.push(value);
  return found;
}

function told(value) {
  return Math.abs(value) >= 10_000 ? value.toExponential(0) : String(Number(value.toFixed(3)));
}
