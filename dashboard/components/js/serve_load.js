// A load test as parts of the page: what drafting brings for how many clients, and the table behind it. Pure.

import { h } from "./dom.js";
import { legend, lineChart, ticks } from "./lines.js";
import { term } from "./terms.js";

const DRAFTS = "with drafts";

/** Elements for `load`: {rows, speedups, break_even, same_answers, gone}. */
export function loadParts(load) {
  if (!load.rows.length) return [];
  return [h("div", { class: "hw-serve-charts" }, ...[throughput(load), speedup(load)].filter(Boolean)), verdict(load), table(load)].filter(Boolean);
}

function verdict(load) {
  const lines = [];
  const falls = load.speedups.filter((row) => row.clients !== null);
  if (falls.length) {
    const best = falls.reduce((a, b) => (b.speedup > a.speedup ? b : a));
    const worst = falls.reduce((a, b) => (b.speedup < a.speedup ? b : a));
    if (load.break_even) lines.push(`Drafting pays up to ${load.break_even} clients here; beyond, the same server is faster without.`);
    else if (worst.speedup >= 1) lines.push(`Drafting pays for every number of clients that was measured, up to ${best.speedup.toFixed(2)} times.`);
    else if (best.speedup < 1) lines.push("Drafting does not pay for any number of clients that was measured.");
    else lines.push("Where drafting pays and where not does not go one way in what was measured; measure longer.");
  }
  const same = load.same_answers;
  if (same) lines.push(`The answers to ${same.same} of ${same.of} prompts are the same with drafts and without.`);
  return lines.length ? h("p", { class: "hw-serve-verdict" }, lines.join(" ")) : null;
}

function curves(load) {
  const points = (arm) => load.rows.filter((row) => row.arm === arm && row.clients !== null).map((row) => [row.clients, row.tokens_per_s]);
  const found = [{ points: points(DRAFTS), name: "with drafts", kind: "main", dots: true }, { points: points("plain"), name: "plain", kind: "second", dots: true }];
  return found.filter((one) => one.points.length > 1);
}

function throughput(load) {
  const found = curves(load);
  if (!found.length) return null;
  const all = found.flatMap((one) => one.points);
  const top = Math.max(...all.map(([, y]) => y));
  const y = { label: "tokens a second", from: 0, to: top * 1.08, ticks: ticks(0, top), text: String };
  return h("figure", {}, h("figcaption", {}, "Tokens a second of the whole server"), lineChart({ curves: found, x: clientsAxis(all), y, label: "Throughput by clients" }),
    legend(found.map((one) => [one.kind, one.name]), h));
}

function speedup(load) {
  const points = load.speedups.filter((row) => row.clients !== null).map((row) => [row.clients, row.speedup]);
  if (points.length < 2) return null;
  const x = clientsAxis(points);
  const top = Math.max(1.2, ...points.map(([, y]) => y));
  const y = { label: "speedup", from: 0, to: top * 1.08, ticks: ticks(0, top), text: String };
  const one = { points: [[x.from, 1], [x.to, 1]], name: "as fast as plain", kind: "limit" };
  const marks = load.break_even ? [{ x: load.break_even, y: 1, text: String(load.break_even) }] : [];
  return h("figure", {}, h("figcaption", {}, "With drafts over plain"), lineChart({ curves: [one, { points, name: "speedup", kind: "main", dots: true }], marks, x, y, label: "Speedup by clients" }),
    legend([["main", "speedup"], ["limit", "as fast as plain"]], h));
}

function clientsAxis(points) {
  const values = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b);
  return { label: "clients", from: values[0], to: values[values.length - 1], ticks: values, text: String, log: true };
}

const TIMES = [["ttft_ms", "First token, ms", "From sending a request to its first token: median, 95 % and 99 % of the requests", { metric: "time_to_first_token" }],
  ["tpot_ms", "Token, ms", "Mean time of a token after the first: median, 95 % and 99 % of the requests", { metric: "time_per_token" }]];

function table(load) {
  const speed = new Map(load.speedups.map((row) => [`${row.clients} ${row.rate}`, row.speedup]));
  const head = ["Load", "Server", ["Tokens/s", "Tokens that arrived while requests were sent, a second", { metric: "tokens_per_s" }], ["Speedup", "Tokens a second over those of the plain server", { metric: "speedup" }],
    ["Answers", "Whole answers; in brackets those that failed or were cut off"], ...TIMES.map(([, ...one]) => one), ["By position, %", "Share of all drafts whose token at this position was accepted, in %", { metric: "acceptance_marginal" }]];
  const cell = (value) => h("td", {}, value);
  const line = (row) => h("tr", { class: row.arm === DRAFTS ? "" : "hw-plain" },
    h("th", { scope: "row" }, row.clients === null ? `${row.rate} a second` : `${row.clients} client${row.clients === 1 ? "" : "s"}`), cell(row.arm), cell(h("b", {}, row.tokens_per_s.toFixed(1))),
    cell(row.arm === DRAFTS && speed.has(`${row.clients} ${row.rate}`) ? speed.get(`${row.clients} ${row.rate}`).toFixed(2) : ""),
    cell(`${row.answered}${row.failed + row.cut ? ` (${row.failed + row.cut})` : ""}`), ...TIMES.map(([name]) => cell(times(row[name]))),
    cell(row.drafts ? row.drafts.rates.map((rate) => (100 * rate).toFixed(0)).join(" · ") : ""));
  return h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation" },
    h("thead", {}, h("tr", {}, head.map((one) => h("th", Array.isArray(one) ? { scope: "col", title: one[1] } : { scope: "col" }, !Array.isArray(one) ? one : one[2] ? term(one[2].metric, one[0]) : one[0])))),
    h("tbody", {}, load.rows.map(line))));
}

function times(found) {
  return found ? ["p50", "p95", "p99"].map((name) => Math.round(found[name]).toLocaleString("en")).join(" / ") : "";
}
