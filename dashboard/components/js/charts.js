// Curves that grow: every point is kept in typed arrays, and a chart draws a view of the range that is seen with few
// points. Drawing a point costs the same whether it is the hundredth or the hundred thousandth. Knows no job.

export const MAX_POINTS = 1500; // points a trace draws at most
const MAX_COLUMNS = MAX_POINTS / 2 - 1;
// Okabe and Ito's colours, told apart by colour-blind eyes; the ninth curve starts again with another dash.
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#5a6472"];
const DARK = ["#56b4e9", "#f0894a", "#2fc79b", "#e39cc4", "#f0c060", "#9bc0ff", "#b79be0", "#aab3bf"];
const DASHES = ["solid", "dot", "dashdot"];

/** Points of one curve in ascending order of x, each with its smoothed value. */
export class Series {
  constructor() {
    this.length = 0;
    this.weight = 0; // of the past in the smoothed value; 0: not smoothed
    this.x = new Float64Array(256);
    this.y = new Float64Array(256);
    this.smooth = new Float64Array(256);
    this._mean = 0;
    this._share = 0; // how much of the mean is data: corrects the start
    this._stale = false; // an earlier point changed, so the smoothed values are made anew before they are drawn
    this._extremes = { y: new Extremes(), smooth: new Extremes() };
  }

  /** A later point is appended; a point that is there already (a job went on from a checkpoint) is replaced. */
  put(x, y) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    const last = this.length - 1;
    if (last < 0 || x > this.x[last]) {
      if (this._stale) this.setSmoothing(this.weight);
      if (this.length === this.x.length) this._grow();
      this.x[this.length] = x;
      this.y[this.length] = y;
      this.length += 1;
      this._smoothOne(this.length - 1);
      return;
    }
    const at = this._first(x);
    if (this.x[at] === x) {
      if (this.y[at] === y) return;
      this.y[at] = y;
    } else {
      if (this.length === this.x.length) this._grow();
      for (const values of [this.x, this.y]) values.copyWithin(at + 1, at, this.length);
      this.x[at] = x;
      this.y[at] = y;
      this.length += 1;
    }
    this._extremes.y.forget(at);
    this._stale = true;
  }

  /** Forgets the points from `x` on. */
  cut(x) {
    this.length = this._first(x);
    this._extremes.y.forget(this.length);
    this._stale = true;
  }

  setSmoothing(weight) {
    this.weight = weight;
    this._stale = false;
    this._mean = 0;
    this._share = 0;
    this._extremes.smooth.forget(0);
    for (let index = 0; index < this.length; index += 1) this._smoothOne(index);
  }

  /** {x, y} of the points from `low` to `high`, one further on each side, at most two for each of `columns`: the least and
   * the greatest value there, so no spike is lost. */
  view(low, high, smoothed = false, columns = MAX_COLUMNS) {
    if (smoothed && this._stale) this.setSmoothing(this.weight);
    const name = smoothed ? "smooth" : "y";
    const [x, values] = [this.x, this[name]];
    const from = Math.max(0, this._first(low) - 1);
    const to = Math.min(this.length, this._first(high) + 2);
    if (to - from <= 2 * columns) return { x: x.slice(from, to), y: values.slice(from, to) };
    this._extremes[name].grow(values, this.length);
    return thinned(x, values, this._extremes[name], from, to, columns);
  }

  get lastValue() {
    return this.length ? this.y[this.length - 1] : null;
  }

  /** Index of the first point whose x is not below `x`. */
  _first(x) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  _smoothOne(index) {
    this._mean = this.weight * this._mean + (1 - this.weight) * this.y[index];
    this._share = this.weight * this._share + (1 - this.weight);
    this.smooth[index] = this._mean / this._share;
  }

  _grow() {
    for (const name of ["x", "y", "smooth"]) {
      const wider = new Float64Array(2 * this.x.length);
      wider.set(this[name]);
      this[`_${name}`] = wider;
    }
    [this.x, this.y, this.smooth] = [this._x, this._y, this._smooth];
  }
}

/** Of a growing array: where the least and the greatest value of every block of 2, 4, 8, … points lies. */
class Extremes {
  constructor() {
    this.length = 0; // points that were taken in
    this.levels = []; // of blocks of 2 << level points: {low, high}, each Int32Array of indices
  }

  /** Values from `index` on have changed or are gone. */
  forget(index) {
    this.length = Math.min(this.length, index);
  }

  /** Takes in what is new up to `length`. */
  grow(values, length) {
    for (let level = 0; length >> (level + 1); level += 1) {
      const blocks = length >> (level + 1);
      const { low, high } = this._level(level, blocks);
      const below = this.levels[level - 1];
      for (let block = this.length >> (level + 1); block < blocks; block += 1) {
        const [first, second] = [2 * block, 2 * block + 1];
        low[block] = lesser(values, below ? below.low[first] : first, below ? below.low[second] : second);
        high[block] = greater(values, below ? below.high[first] : first, below ? below.high[second] : second);
      }
    }
    this.length = length;
  }

  _level(level, blocks) {
    const known = this.levels[level];
    if (known && known.low.length >= blocks) return known;
    const wider = { low: new Int32Array(2 * blocks), high: new Int32Array(2 * blocks) };
    if (known) for (const name of ["low", "high"]) wider[name].set(known[name]);
    this.levels[level] = wider;
    return wider;
  }
}

const lesser = (values, one, other) => (values[other] < values[one] ? other : one);
const greater = (values, one, other) => (values[other] > values[one] ? other : one);

/** Points from … to - 1 in at most `columns` blocks of equal many: of each the least and the greatest value, in their
 * order; both ends stay. Reads a few numbers a block, however many points there are. */
function thinned(x, values, extremes, from, to, columns) {
  let level = 0;
  while ((to - from) >> (level + 1) > columns - 3) level += 1;
  const size = 2 << level;
  const xs = new Float64Array(2 * columns + 4);
  const ys = new Float64Array(2 * columns + 4);
  let count = 0;
  let last = -1;
  const keep = (index) => {
    if (index <= last) return;
    xs[count] = x[index];
    ys[count] = values[index];
    count += 1;
    last = index;
  };
  const both = (low, high) => {
    keep(Math.min(low, high));
    keep(Math.max(low, high));
  };
  const part = (start, stop) => {
    let [low, high] = [start, start];
    for (let index = start + 1; index < stop; index += 1) {
      low = lesser(values, low, index);
      high = greater(values, high, index);
    }
    if (start < stop) both(low, high);
  };
  const [first, end] = [Math.ceil(from / size), Math.floor(to / size)];
  const { low, high } = extremes.levels[level];
  keep(from);
  part(from, first * size);
  for (let block = first; block < end; block += 1) both(low[block], high[block]);
  part(end * size, to);
  keep(to - 1);
  return { x: xs.slice(0, count), y: ys.slice(0, count) };
}

let loading = null;

/** Plotly's own script, fetched when the first chart of a page appears. */
export function loadPlotly(address) {
  loading = loading || new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      loading = null;
      script.remove();
      reject(new Error("the chart library could not be fetched"));
    };
    document.head.append(script);
  });
  return loading;
}

export function colourOf(index, dark) {
  const colours = dark ? DARK : LIGHT;
  return colours[index % colours.length];
}

/**
 * One Plotly chart in `element`. `curves` are [{key, name, series, colour (number), dashed, smooth, shown}]. `zoom` is shared by
 * all charts of a group, so that all show the same steps: {x: [low, high] or null}.
 */
export class Chart {
  constructor(element, plotly, { zoom, onZoom, format = ".4~g", percent = false }) {
    this.element = element;
    this.plotly = plotly;
    this.zoom = zoom;
    this.onZoom = onZoom;
    this.format = percent ? ".1%" : format;
    this.percent = percent;
    this.curves = [];
    this.log = false;
    this.yRange = null; // what a person zoomed to; null: all
    this.draws = 0;
    this._held = false;
    element.addEventListener("pointerdown", () => { this._held = true; });
    this._released = () => { this._held = false; };
    window.addEventListener("pointerup", this._released, true);
    new ResizeObserver(() => this._resize()).observe(element);
  }

  setLog(log) {
    this.log = log;
    this.yRange = null;
  }

  /** Draws what is there now. While a person drags a zoom box nothing moves; says whether it drew. */
  draw() {
    if (this._held || !this.element.clientWidth) return false;
    const first = !this.draws;
    this.draws += 1;
    const dark = document.body.classList.contains("dark");
    this.plotly.react(this.element, this._traces(dark), this._layout(dark), {
      displayModeBar: false, doubleClick: false, responsive: false, showTips: false,
    });
    if (first) this._listen();
    return true;
  }

  _listen() {
    this.element.on("plotly_relayout", (change) => {
      const x = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      const y = [change["yaxis.range[0]"], change["yaxis.range[1]"]];
      if (y[0] !== undefined) this.yRange = y;
      if (x[0] !== undefined) this.onZoom(x.map(Number));
      else if (y[0] !== undefined) this.onZoom(this.zoom.x);
    });
    this.element.on("plotly_doubleclick", () => this.onZoom(null));
  }

  _resize() {
    if (this.draws && this.element.clientWidth && !this._held) this.plotly.Plots.resize(this.element);
  }

  _traces(dark) {
    const [low, high] = this.zoom.x || [-Infinity, Infinity];
    const columns = Math.max(100, Math.min(MAX_COLUMNS, this.element.clientWidth)); // finer than a pixel shows nothing
    const traces = [];
    for (const curve of this.curves) {
      if (!curve.shown || !curve.series.length) continue;
      const smoothed = curve.smooth && curve.series.weight > 0 && curve.series.length > 2;
      const colour = colourOf(curve.colour, dark);
      if (smoothed) traces.push(trace(curve, curve.series.view(low, high, false, columns), colour, { pale: true }));
      traces.push(trace(curve, curve.series.view(low, high, smoothed, columns), colour, { format: this.format }));
    }
    return traces;
  }

  _layout(dark) {
    const css = getComputedStyle(document.body);
    const [line, text, muted, card] = ["line", "text", "muted", "card"].map((name) => css.getPropertyValue(`--hw-${name}`).trim());
    const axis = { gridcolor: line, zeroline: false, linecolor: line, tickfont: { color: muted, size: 11 }, automargin: true };
    const ranged = (range) => (range ? { range: [...range], autorange: false } : { autorange: true });
    return {
      autosize: true, height: this.element.clientHeight || 220, showlegend: false, hovermode: "x unified", dragmode: "zoom",
      margin: { l: 44, r: 10, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css.fontFamily, color: text, size: 12 },
      hoverlabel: { bgcolor: card, bordercolor: line, font: { color: text, size: 12 } },
      xaxis: { ...axis, ...ranged(this.zoom.x), title: { text: "step", font: { size: 11, color: muted }, standoff: 2 }, hoverformat: ",d", separatethousands: true },
      yaxis: {
        ...axis, ...ranged(this.yRange), type: this.log ? "log" : "linear", tickformat: this.percent ? ".1~%" : undefined,
        exponentformat: "power",
      },
    };
  }
}

function trace(curve, points, colour, { pale = false, format = "" } = {}) {
  const few = points.x.length < (curve.dashed ? 12 : 40);
  return {
    type: "scatter", mode: few && !pale ? "lines+markers" : "lines", x: points.x, y: points.y, name: curve.name,
    line: { color: colour, width: pale ? 1 : 2, dash: curve.dashed ? "dash" : DASHES[Math.floor(curve.colour / LIGHT.length) % DASHES.length] },
    marker: { size: 5 }, opacity: pale ? 0.28 : 1, hoverinfo: pale ? "skip" : undefined,
    hovertemplate: pale ? undefined : `%{y:${format}}`,
  };
}
