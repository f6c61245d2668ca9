// What the charts of a sweep share: a canvas that is as sharp as the screen and follows its box, colours of the theme,
// and axes drawn on it. Knows no trial.

import { h } from "./dom.js";

// Cividis, told apart by colour-blind eyes; the best stands out from the paper in light and in dark.
const RAMP = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

/** A canvas in a box; `draw(context, width, height)` is called when something has changed, once a frame at most. */
export class Surface {
  constructor(draw, attributes = {}) {
    this.canvas = h("canvas", { class: "hw-canvas", ...attributes });
    this.draw = draw;
    this.width = 0;
    this.height = 0;
    this.draws = 0;
    this._waiting = false;
    new ResizeObserver(() => this.later()).observe(this.canvas);
  }

  later() {
    if (this._waiting) return;
    this._waiting = true;
    requestAnimationFrame(() => {
      this._waiting = false;
      this.now();
    });
  }

  now() {
    const { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.width = width;
    this.height = height;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.draw(context, width, height);
    this.draws += 1;
  }

  /** Where a pointer is, in the canvas's own pixels. */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

/** The theme's colours as the page has them now. */
export function colours() {
  const css = getComputedStyle(document.body);
  const read = (name) => css.getPropertyValue(`--hw-${name}`).trim();
  const dark = document.body.classList.contains("dark");
  return {
    dark, text: read("text"), muted: read("muted"), line: read("line"), card: read("card"), soft: read("soft"), accent: read("accent"),
    faint: dark ? "rgba(150, 162, 178, 0.16)" : "rgba(90, 100, 114, 0.14)", rejected: read("rejected"), font: css.fontFamily,
  };
}

/** The colour of a goodness from 0 to 1; null is grey. `alpha` 0 to 1. */
export function ramp(share, dark, alpha = 1) {
  if (share === null || !Number.isFinite(share)) return `rgba(128, 136, 148, ${alpha})`;
  const along = 0.06 + 0.9 * Math.min(1, Math.max(0, share));
  const place = (dark ? along : 1 - along) * (RAMP.length - 1);
  const low = Math.min(RAMP.length - 2, Math.floor(place));
  const [red, green, blue] = RAMP[low].map((value, index) => Math.round(value + (RAMP[low + 1][index] - value) * (place - low)));
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

export function say(context, text, x, y, { colour, size = 11, align = "left", base = "middle", weight = 400, font }) {
  context.fillStyle = colour;
  context.font = `${weight} ${size}px ${font}`;
  context.textAlign = align;
  context.textBaseline = base;
  context.fillText(text, x, y);
}

/** The text, cut so that it fits into `width` pixels. */
export function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let letters = Array.from(text);
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > width) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}

/** Frame, marks and titles of a chart with two axes; `box` is {left, right, top, bottom} of the field. */
export function drawAxes(context, box, x, y, theme, { titles = true } = {}) {
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  const style = { colour: theme.muted, size: 11, font: theme.font };
  for (const { at, text } of y.ticks(4)) {
    const level = box.bottom - at * (box.bottom - box.top);
    context.beginPath();
    context.moveTo(box.left, Math.round(level) + 0.5);
    context.lineTo(box.right, Math.round(level) + 0.5);
    context.stroke();
    context.font = `400 11px ${theme.font}`;
    say(context, cut(context, text, box.left - 8), box.left - 6, level, { ...style, align: "right" });
  }
  drawBelow(context, box, x, style);
  if (!titles) return;
  say(context, x.label, (box.left + box.right) / 2, box.bottom + 30, { ...style, align: "center" });
  say(context, y.label, box.left, box.top - 12, { ...style });
}

/** Marks below the field, as many as there is room for. */
function drawBelow(context, box, x, style) {
  const ticks = x.ticks(Math.max(2, Math.floor((box.right - box.left) / 70)));
  context.font = `400 11px ${style.font}`;
  const room = (box.right - box.left) / Math.max(1, ticks.length - 1);
  let free = -Infinity;
  for (const { at, text } of ticks) {
    const place = box.left + at * (box.right - box.left);
    const shown = cut(context, text, Math.max(28, room - 6));
    const half = context.measureText(shown).width / 2;
    if (place - half < free) continue;
    free = place + half + 6;
    say(context, shown, Math.min(box.right + 8 - half, Math.max(half, place)), box.bottom + 13, { ...style, align: "center" });
  }
}

/** Draws all charts anew when the theme changes. */
export function onTheme(call) {
  new MutationObserver(call).observe(document.body, { attributes: true, attributeFilter: ["class"] });
}
