// A server while it runs: where it answers, what it counted in the last seconds, and its last words while it loads or when
// it has died. Follows one job at a time.

import { h, setText } from "./dom.js";
import { lineChart, ticks } from "./lines.js";

const SHOWN_S = 600; // of the curves
const LINES = 12; // of the log

export class LiveServer {
  constructor(feed) {
    this.feed = feed;
    this.id = null;
    this._leave = null;
    this._rows = [];
    this._scheduled = false;
    this.address = h("p", { class: "hw-serve-address" });
    this.figures = h("div", { class: "hw-serve-figures" });
    this.charts = h("div", { class: "hw-serve-charts" });
    this.bars = h("div", { class: "hw-serve-bars" });
    this.log = h("pre", { class: "hw-log", tabindex: "0", "aria-label": "Last lines of vLLM" });
    this.logTitle = h("h4", {}, "Last lines of vLLM");
    this.node = h("div", { class: "hw-serve-live", hidden: true }, this.address, this.figures, this.charts, this.bars, this.logTitle, this.log);
  }

  /** `data` of the server's job; `open`: it waits or runs. */
  show(data, open) {
    this.node.hidden = false;
    this.follow(data.job.id);
    const { server } = data;
    this.address.replaceChildren(...(server ? addressOf(server, open) : [open ? "Loading; that takes about a minute, with compiling several." : "It never answered."]));
    const lines = data.log.slice(-LINES);
    this.log.hidden = this.logTitle.hidden = !lines.length || Boolean(server && open);
    setText(this.log, lines.join("\n"));
  }

  follow(id) {
    if (id === this.id) return;
    if (this._leave) this._leave();
    this._leave = null;
    this.id = id;
    this._rows = [];
    this.node.hidden = id === null;
    for (const part of [this.figures, this.charts, this.bars]) part.replaceChildren();
    if (id === null) return;
    this._leave = this.feed.job(id).on((changed, state) => {
      if (!changed.has("metrics")) return;
      this._rows = [...state.rows.values()].sort((a, b) => a.step - b.step);
      if (this._scheduled) return;
      this._scheduled = true;
      requestAnimationFrame(() => { this._scheduled = false; this._draw(); });
    });
  }

  _draw() {
    const rows = this._rows;
    if (!rows.length) return;
    const last = rows[rows.length - 1].values;
    const drafted = [...rows].reverse().find((row) => row.values.acceptance_length !== undefined);
    const whole = [...rows].reverse().find((row) => row.values.drafts !== undefined);
    const figure = (name, value, note) => h("div", { class: "hw-figure" }, h("small", {}, name), h("b", {}, value), h("small", {}, note));
    const number = (value) => Number(value).toLocaleString("en");
    this.figures.replaceChildren(...[
      figure("Tokens a second", last.tokens_per_s.toFixed(1), `${last.running} running, ${last.waiting} waiting`),
      drafted && figure("Acceptance length", drafted.values.acceptance_length.toFixed(2), "tokens a step, last seconds"),
      whole && figure("Drafts", number(whole.values.drafts), "since the server started"),
      whole && figure("Accepted", number(whole.values.accepted), `of ${number(whole.values.draft_tokens)} drafted tokens`),
    ].filter(Boolean));
    const from = Math.max(rows[0].step, rows[rows.length - 1].step - SHOWN_S);
    const seen = rows.filter((row) => row.step >= from);
    const curve = (name) => seen.filter((row) => row.values[name] !== undefined).map((row) => [row.step, row.values[name]]);
    const charts = [chart(curve("tokens_per_s"), "Tokens a second", 0), chart(curve("acceptance_length"), "Acceptance length", 1)];
    this.charts.replaceChildren(...charts.filter(Boolean));
    this.bars.replaceChildren(...(drafted ? positions(drafted.values) : []));
  }
}

function addressOf(server, open) {
  const where = open ? "Answers at " : "Answered at ";
  return [where, h("code", {}, server.url), ` as ${server.model}: ${server.drafts}.`];
}

/** Acceptance at each position as bars. */
function positions(values) {
  const rates = Object.keys(values).filter((name) => name.startsWith("position_")).map((name) => [Number(name.slice(9)), values[name]]).sort((a, b) => a[0] - b[0]);
  const bar = ([place, rate]) => h("li", {}, h("span", {}, `position ${place}`), h("span", { class: "hw-serve-bar" }, h("i", { style: `width:${(100 * rate).toFixed(1)}%` })), h("b", {}, `${(100 * rate).toFixed(1)} %`));
  return [h("h4", {}, "Accepted at each position, of all drafts of the last seconds"), h("ol", {}, rates.map(bar))];
}

function chart(points, name, from) {
  if (points.length < 2) return null;
  const top = Math.max(...points.map(([, y]) => y), from + 1);
  const x = { label: "seconds since it was ready", from: points[0][0], to: points[points.length - 1][0], ticks: ticks(points[0][0], points[points.length - 1][0]), text: String };
  const y = { label: name.toLowerCase(), from, to: top * 1.05, ticks: ticks(from, top), text: (value) => `${value}` };
  return h("figure", {}, h("figcaption", {}, name), lineChart({ curves: [{ points, name, kind: "main" }], x, y, label: `${name} over time` }));
}
