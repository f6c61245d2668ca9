// A job's metrics as curves, and which chart each belongs to. Knows the names that training reports, draws nothing.

import { Series } from "./charts.js";

const BY_HEAD = [
  [/^loss_(\d+)$/, "loss", false],
  [/^held_out_loss_(\d+)$/, "loss", true],
  [/^held_out_(top\d+)_(\d+)$/, "accuracy", false],
  [/^accept_(conditional|marginal)_(\d+)$/, "acceptance", false],
  [/^held_out_accept_(conditional|marginal)_(\d+)$/, "acceptance", true],
];
const WHOLE = [
  [/^loss$/, "loss", false],
  [/^held_out_loss$/, "loss", true],
  [/^acceptance_length$/, "length", false],
  [/^learning_rate$/, "rate", false],
];
const NOT_SHOWN = new Set(["train_s"]);

/** {chart, head (of a depth from 0; null: all together), dashed, variant (such as top3)} of a metric's name; null: not drawn. */
export function placeOf(name) {
  if (NOT_SHOWN.has(name)) return null;
  for (const [pattern, chart, dashed] of BY_HEAD) {
    const match = pattern.exec(name);
    if (match) return { chart, head: Number(match.at(-1)), dashed, variant: match.length > 2 ? match[1] : null };
  }
  for (const [pattern, chart, dashed] of WHOLE) {
    if (pattern.test(name)) return { chart, head: null, dashed, variant: null };
  }
  return { chart: "more", head: null, dashed: false, variant: name };
}

/** What a curve is called where it is pointed at. */
export function curveName(name, place) {
  const words = [place.head === null ? wordsOf(name) : `depth ${place.head + 1}`];
  if (place.dashed && place.head !== null) words.push(place.chart === "acceptance" ? "best guesses" : "held-out");
  return words.join(", ");
}

/** "held_out_acceptance_length" -> "held-out acceptance length". */
export function wordsOf(name) {
  return name.replace(/^held_out_/, "held-out ").replaceAll("_", " ");
}

/** All curves of one job. Rows are {step, values}; a step that was seen before is replaced. */
export class Metrics {
  constructor() {
    this.series = new Map();
    this.lastStep = 0;
    this.latest = {}; // the newest value of each name
    this.weight = 0;
  }

  take(rows) {
    for (const row of rows) {
      this.lastStep = Math.max(this.lastStep, row.step);
      for (const [name, value] of Object.entries(row.values)) {
        let series = this.series.get(name);
        if (!series) {
          series = new Series();
          series.setSmoothing(this.weight);
          this.series.set(name, series);
        }
        series.put(row.step, value);
        this.latest[name] = value;
      }
    }
  }

  /** Forgets everything from a step on: the job went back to a checkpoint. */
  cut(step) {
    this.lastStep = Math.min(this.lastStep, step - 1);
    for (const series of this.series.values()) series.cut(step);
  }

  setSmoothing(weight) {
    this.weight = weight;
    for (const series of this.series.values()) series.setSmoothing(weight);
  }
}
