// The charts of a comparison as SVG: prompts against each other, acceptance by depth, accepted tokens a step, differences
// of parts. Data in, nodes out; they need nothing but their style sheet, so a report can carry them along.

import { h, s } from "./dom.js";

const WIDE = 620;
const MARKS = ["circle", "square", "diamond", "triangle", "cross", "bar"]; // shape tells as well as colour

/** Round numbers from `low` to `high`, about `count` of them. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= rough) || 10);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

function mark(side, x, y, size, attributes = {}) {
  const shape = MARKS[side % MARKS.length];
  const own = { class: `hw-cmp-mark side-${side}`, ...attributes };
  if (shape === "circle") return s("circle", { ...own, cx: x, cy: y, r: size });
  const paths = {
    square: `M${x - size} ${y - size}h${2 * size}v${2 * size}h${-2 * size}z`,
    diamond: `M${x} ${y - size * 1.3}l${size * 1.3} ${size * 1.3}l${-size * 1.3} ${size * 1.3}l${-size * 1.3} ${-size * 1.3}z`,
    triangle: `M${x} ${y - size * 1.2}l${size * 1.2} ${size * 2.1}h${-size * 2.4}z`,
    cross: `M${x - size} ${y - size * 0.4}h${size * 0.6}v${-size * 0.6}h${size * 0.8}v${size * 0.6}h${size * 0.6}v${size * 0.8}h${-size * 0.6}v${size * 0.6}h${-size * 0.8}v${-size * 0.6}h${-size * 0.6}z`,
    bar: `M${x - size * 0.5} ${y - size * 1.3}h${size}v${size * 2.6}h${-size}z`,
  };
  return s("path", { ...own, d: paths[shape] });
}

/** A side's sign for legends and tables. */
export function sign(side) {
  return s("svg", { class: "hw-cmp-sign", width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, mark(side, 7, 7, 4.4));
}

function frame(height, label, ...children) {
  return s("svg", { class: "hw-cmp-chart", viewBox: `0 0 ${WIDE} ${height}`, role: "img", "aria-label": label }, ...children);
}

function axes(box, { x, y, xTitle, yTitle, xTicks, yTicks, xText = String, yText = String }) {
  return [
    yTicks.map((one) => [s("line", { class: "grid", x1: box.left, x2: box.right, y1: y(one), y2: y(one) }), s("text", { class: "tick", x: box.left - 7, y: y(one) + 4, "text-anchor": "end" }, yText(one))]),
    xTicks.map((one) => s("text", { class: "tick", x: x(one), y: box.bottom + 17, "text-anchor": "middle" }, xText(one))),
    s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    s("text", { class: "title", x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" }, xTitle),
    s("text", { class: "title", x: 13, y: (box.top + box.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(box.top + box.bottom) / 2})` }, yTitle),
  ];
}

/** Every prompt: the reference's figure across, the other sides' up; above the line the other side is higher. */
export function scatter(view, { values, title, shown, picked, open }) {
  const { reference, sides } = view;
  const height = 470;
  const box = { left: 58, right: WIDE - 12, top: 12, bottom: height - 46 };
  const numbers = view.points.flatMap((point) => values(point).filter((one, side) => one !== null && (side === reference || shown.has(side))));
  if (!numbers.length) return h("p", { class: "hw-nothing" }, "No prompt has this figure on both sides.");
  const [low, high] = padded(Math.min(...numbers), Math.max(...numbers));
  const x = (value) => box.left + ((value - low) / (high - low)) * (box.right - box.left);
  const y = (value) => box.bottom - ((value - low) / (high - low)) * (box.bottom - box.top);
  const dots = [];
  view.points.forEach((point) => {
    const own = values(point);
    if (own[reference] === null) return;
    own.forEach((value, side) => {
      if (side === reference || value === null || !shown.has(side)) return;
      const dot = mark(side, x(own[reference]), y(value), 4, { "data-asked": point[0] });
      if (point[0] === picked) dot.classList.add("picked");
      dot.append(s("title", {}, `${point[1]} (${point[2]})\n${sides[reference].letter} ${short(own[reference])}, ${sides[side].letter} ${short(value)}`));
      dots.push(dot);
    });
  });
  const chart = frame(height, `${title}, prompt by prompt: ${sides[reference].letter} across, the others up`,
    axes(box, { x, y, xTitle: `${title}: ${sides[reference].letter}`, yTitle: [...shown].map((side) => sides[side].letter).join(", "), xTicks: ticks(low, high), yTicks: ticks(low, high), xText: short, yText: short }),
    s("line", { class: "even", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }), dots);
  if (open) {
    chart.addEventListener("click", (event) => {
      const dot = event.target.closest("[data-asked]");
      if (dot) open(dot.dataset.asked);
    });
    chart.classList.add("clickable");
  }
  return chart;
}

/** Acceptance at each depth, with intervals: filled marks of all steps, hollow ones of those that drafted a guess there. */
export function depthChart(view) {
  const height = 260;
  const box = { left: 58, right: WIDE - 12, top: 12, bottom: height - 46 };
  const count = view.depths.length;
  const band = (box.right - box.left) / Math.max(1, count);
  const conditional = view.conditional.flat().filter((one) => one !== null);
  const top = Math.min(1, Math.max(0.05, ...view.depths.flatMap((line) => line.sides.map((one) => (one.interval ? one.interval[1] : one.value) || 0)), ...conditional) * 1.08);
  const y = (value) => box.bottom - (value / top) * (box.bottom - box.top);
  const x = (depth) => box.left + (depth + 0.5) * band;
  const drawn = view.depths.map((line, depth) => line.sides.map((one, side) => {
    if (one.value === null) return null;
    const step = Math.min(16, band / (view.sides.length + 1));
    const at = x(depth) + (side - (view.sides.length - 1) / 2) * step;
    const given = view.conditional[side][depth];
    const told = `${view.sides[side].letter}, depth ${depth + 1}: ${percent(one.value)} of steps${one.interval ? ` (${percent(one.interval[0])} to ${percent(one.interval[1])})` : ""}${given === null ? "" : `, ${percent(given)} of those that drafted a guess there`}`;
    return s("g", {}, s("title", {}, told),
      one.interval ? s("line", { class: `hw-cmp-whisker side-${side}`, x1: at, x2: at, y1: y(one.interval[0]), y2: y(one.interval[1]) }) : null,
      given === null ? null : s("circle", { class: `hw-cmp-hollow side-${side}`, cx: at, cy: y(given), r: 3.4 }), mark(side, at, y(one.value), 4));
  }));
  return frame(height, "Acceptance by depth",
    axes(box, { x, y, xTitle: "depth", yTitle: "accepted", xTicks: view.depths.map((_, depth) => depth), yTicks: ticks(0, top, 4), xText: (depth) => String(depth + 1), yText: (one) => percent(one, 0) }), drawn);
}

/** Share of steps that accepted 0, 1, … drafted tokens. */
export function histogram(view) {
  const height = 240;
  const box = { left: 58, right: WIDE - 12, top: 12, bottom: height - 46 };
  const count = Math.max(...view.histograms.map((one) => one.length));
  const band = (box.right - box.left) / count;
  const top = Math.max(0.01, ...view.histograms.flat()) * 1.05;
  const y = (value) => box.bottom - (value / top) * (box.bottom - box.top);
  const x = (number) => box.left + (number + 0.5) * band;
  const width = Math.min(34, (band * 0.82) / view.sides.length);
  const bars = view.histograms.map((shares, side) => shares.map((share, number) => s("rect", {
    class: `hw-cmp-bar side-${side}`, x: x(number) + (side - view.sides.length / 2) * width, y: y(share), width: Math.max(1, width - 1.5), height: Math.max(0, box.bottom - y(share)),
  }, s("title", {}, `${view.sides[side].letter}: ${percent(share)} of steps accepted ${number}`))));
  return frame(height, "Accepted drafted tokens a step",
    axes(box, { x, y, xTitle: "drafted tokens accepted in a step", yTitle: "steps", xTicks: [...Array(count).keys()], yTicks: ticks(0, top, 4), yText: (one) => percent(one, 0) }), bars);
}

/** One interval on a shared axis of changes: the line is 0, no difference. */
export function changeBar(interval, change, [low, high], side) {
  const width = 170;
  const x = (value) => ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (width - 8) + 4;
  return s("svg", { class: "hw-cmp-change", width, height: 16, viewBox: `0 0 ${width} 16`, "aria-hidden": "true" },
    s("line", { class: "even", x1: x(0), x2: x(0), y1: 0, y2: 16 }),
    interval ? s("line", { class: `hw-cmp-whisker side-${side}`, x1: x(interval[0]), x2: x(interval[1]), y1: 8, y2: 8 }) : null,
    change === null ? null : mark(side, x(change), 8, 3.6));
}

function padded(low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : String(Number(value.toFixed(2)));
}

export function percent(value, digits = 1) {
  return `${(100 * value).toFixed(digits)} %`;
}
