// The trials of a sweep and the one selection that all its charts share: brushed axes, the best part, the picked trial.
// Pure: no element, no network. Whoever draws listens with `on`.

export const ALL = 100; // percent

/** An axis knows where a value stands between 0 (bottom) and 1 (top), and what stands there. */
export class Axis {
  constructor({ name, label, numeric = true, log = false, values = null, maximize = null }) {
    Object.assign(this, { name, label, numeric, log, values, maximize });
    this.low = 0;
    this.high = 1;
  }

  /** Takes the range of the numbers, a little room on both sides. */
  fit(numbers) {
    if (!this.numeric) return;
    const known = numbers.filter((value) => Number.isFinite(value));
    let low = Infinity;
    let high = -Infinity;
    for (const value of known) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (!known.length) [low, high] = [0, 1];
    this.log = this.log && low > 0;
    if (low === high) [low, high] = this.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    this.low = low;
    this.high = high;
  }

  /** 0 to 1; null for a value that is not there. */
  place(value) {
    if (value === undefined || value === null) return null;
    if (!this.numeric) {
      const at = this.values.indexOf(String(value));
      if (at < 0) return null;
      return this.values.length === 1 ? 0.5 : at / (this.values.length - 1);
    }
    if (!Number.isFinite(value)) return null;
    return this.log ? (Math.log(value) - Math.log(this.low)) / (Math.log(this.high) - Math.log(this.low)) : (value - this.low) / (this.high - this.low);
  }

  /** [{at, text}] of a few marks. */
  ticks(count = 5) {
    if (!this.numeric) return this.values.map((text, index) => ({ at: this.values.length === 1 ? 0.5 : index / (this.values.length - 1), text }));
    const numbers = this.log ? logTicks(this.low, this.high) : linearTicks(this.low, this.high, count);
    return numbers.map((value) => ({ at: this.place(value), text: short(value) })).filter(({ at }) => at > -0.001 && at < 1.001);
  }
}

export class SweepModel {
  constructor() {
    this.trials = new Map(); // number -> row as the server gives it
    this.rows = []; // those that were measured to their end, by number
    this.axes = []; // knobs that vary, then objectives
    this.goals = [];
    this.figures = [];
    this.importance = {};
    this.front = new Set();
    this.best = null;
    this.brushes = new Map(); // axis name -> [low, high] as places 0..1
    this.top = ALL; // percent of the trials that are kept, the best in `goal`
    this.goal = null; // name of the figure that colours and sorts
    this.picked = null; // number of a trial
    this.hovered = null;
    this.selected = new Uint8Array(0); // by index in rows
    this.count = 0;
    this.drawnMs = []; // how long an answer to a change took, for tests and for the curious
    this._listeners = [];
  }

  /** `listener(changed)` with a set of data, selection, picked. Called in the order of registration. */
  on(listener) {
    this._listeners.push(listener);
  }

  /** Another sweep. */
  clear() {
    this.trials.clear();
    this.brushes.clear();
    Object.assign(this, { top: ALL, goal: null, picked: null, hovered: null, best: null });
    this.take({ knobs: [], goals: [], figures: [], trials: [], front: [], best: null, importance: {} });
  }

  take(data) {
    for (const row of data.trials) this.trials.set(row.number, row);
    this.rows = [...this.trials.values()].filter((row) => row.state === "finished").sort((a, b) => a.number - b.number);
    this.goals = data.goals;
    this.figures = data.figures;
    this.front = new Set(data.front);
    this.best = data.best;
    this.importance = data.importance;
    this.method = data.method;
    this.axes = [
      ...data.knobs.map((knob) => new Axis(knob)),
      ...data.goals.map((goal) => new Axis({ ...goal, numeric: true })),
    ];
    for (const axis of this.axes) axis.fit(this.rows.map((row) => this.value(row, axis.name)));
    if (!this.figures.some((figure) => figure.name === this.goal)) this.goal = data.goals.length ? data.goals[0].name : null;
    this._select();
    this._tell("data", "selection", "picked");
  }

  /** A knob's value or a figure of a trial. */
  value(row, name) {
    return name in row.figures ? row.figures[name] : row.values[name];
  }

  axis(name) {
    const known = this.axes.find((axis) => axis.name === name);
    if (known) return known;
    const axis = new Axis(name === "number" ? { name, label: "Trial" } : { ...this.figure(name), numeric: true });
    axis.fit(this.rows.map((row) => (name === "number" ? row.number : this.value(row, name))));
    return axis;
  }

  figure(name) {
    return this.figures.find((figure) => figure.name === name) || { name, label: name, maximize: true };
  }

  brush(name, range) {
    if (range) this.brushes.set(name, range);
    else this.brushes.delete(name);
    this._changed();
  }

  setTop(percent) {
    this.top = percent;
    this._changed();
  }

  setGoal(name) {
    this.goal = name;
    this._changed();
  }

  reset() {
    this.brushes.clear();
    this.top = ALL;
    this._changed();
  }

  pick(number) {
    this.picked = number;
    this._tell("picked");
  }

  hover(number) {
    if (number === this.hovered) return;
    this.hovered = number;
    this._tell("hovered");
  }

  /** The row that the detail speaks of: the picked trial, else the best one. */
  get shown() {
    return this.trials.get(this.picked) || this.trials.get(this.best) || null;
  }

  /** 0 (worst) to 1 (best) in the chosen figure, for a colour; null without it. */
  goodness(row) {
    const place = this._goalAxis.place(row.figures[this.goal]);
    return place === null ? null : this.figure(this.goal).maximize ? place : 1 - place;
  }

  /** Selected rows, the best in the chosen figure first. */
  ranked() {
    const sign = this.figure(this.goal).maximize ? -1 : 1;
    return this.rows.filter((row, index) => this.selected[index])
      .sort((a, b) => sign * ((a.figures[this.goal] ?? sign * Infinity) - (b.figures[this.goal] ?? sign * Infinity)));
  }

  _changed() {
    const started = performance.now();
    this._select();
    this._tell("selection");
    this.drawnMs.push(performance.now() - started);
  }

  _select() {
    const { rows } = this;
    this._goalAxis = this.goal ? this.axis(this.goal) : new Axis({ name: "", label: "" });
    const selected = new Uint8Array(rows.length).fill(1);
    for (const [name, [low, high]] of this.brushes) {
      const axis = this.axes.find((one) => one.name === name);
      if (!axis) continue;
      for (let index = 0; index < rows.length; index += 1) {
        const place = axis.place(this.value(rows[index], name));
        if (place === null || place < low - 1e-9 || place > high + 1e-9) selected[index] = 0;
      }
    }
    if (this.top < ALL && this.goal) this._keepTop(selected);
    this.selected = selected;
    this.count = selected.reduce((sum, flag) => sum + flag, 0);
  }

  /** The best part of all trials in the chosen figure, whatever else is brushed. */
  _keepTop(selected) {
    const sign = this.figure(this.goal).maximize ? -1 : 1;
    const figures = this.rows.map((row) => row.figures[this.goal]);
    const sorted = figures.filter((value) => Number.isFinite(value)).sort((a, b) => sign * (a - b));
    const bar = sorted[Math.max(0, Math.ceil((this.top / 100) * sorted.length) - 1)];
    figures.forEach((value, index) => {
      if (!Number.isFinite(value) || sign * (value - bar) > 0) selected[index] = 0;
    });
  }

  _tell(...what) {
    const changed = new Set(what);
    for (const listener of this._listeners) listener(changed);
  }
}

function linearTicks(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(1, count - 1)));
  let ticks = [];
  for (const part of [10, 5, 2, 1, 0.5]) { // finer steps until there are enough of them
    ticks = [];
    const step = part * power;
    for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-9; number += 1) ticks.push(Number((number * step).toPrecision(12)));
    if (ticks.length >= Math.max(2, count - 1)) break;
  }
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const part of Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5]) {
      const value = part * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return ticks.length > 1 ? ticks : [low, high];
}

/** A number as short as it says something. */
export function short(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (value !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1);
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}
