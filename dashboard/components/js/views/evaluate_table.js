// The table of an evaluation, as elements. Pure: data in, nodes out; what is folded out is the caller's set of keys.

import { h } from "../dom.js";
import { term } from "../terms.js";
import { decimal, percent } from "../text.js";

const HEAD = [
  ["Drafter", "What guessed ahead; plain decoding guesses nothing."],
  ["Length", "Acceptance length: tokens a step, the target's own one counted, with its 95 % interval.", { metric: "acceptance_length" }],
  ["By depth", "Bars: share of steps that accepted depth 1, 2, …. Lines: share of those that drafted a guess there.", { metric: "acceptance_marginal" }],
  ["By kind", "Of special tokens, format and content: the share that was drafted right, where something was drafted.", { metric: "acceptance_by_class" }],
  ["Speedup", "Tokens a second over plain decoding of the same prompts, measured in turns, with its 95 % interval.", { metric: "speedup" }],
  ["Explained by", "Length / (checking + drafting + rest), in steps of plain decoding: what the speedup should be.", { metric: "explained_speedup" }],
  ["Tokens/s", "All rows together, reading of prompts left out.", { metric: "tokens_per_s" }],
  ["Repeated", "Share of the output inside repeated runs of 8 tokens: looping text is easy to guess.", { metric: "repeated" }],
  ["Prompts", "Answers measured so far.", { metric: "answers" }],
];

/** `open`: keys of rows whose domains are shown; `toggle(key)` is called on a click; `sizes`: prompts by set. */
export function evaluationTable(group, { open, toggle, sizes }) {
  const head = h("tr", {}, HEAD.map(([name, why, { metric } = {}]) => h("th", { scope: "col", title: why }, metric ? term(metric, name) : name)));
  const bodies = [];
  let set = null;
  const several = new Set(group.rows.map((row) => row.set)).size > 1;
  for (const row of group.rows) {
    if (row.set !== set) {
      set = row.set;
      bodies.push(h("tbody", {}, several ? h("tr", { class: "hw-set" }, h("th", { scope: "rowgroup", colspan: HEAD.length }, set)) : null));
    }
    const key = `${group.temperature} ${group.batch} ${row.set} ${row.contender}`;
    const shown = open.has(key);
    bodies.at(-1).append(line(row, { key, shown, toggle, size: sizes[row.set] }));
    if (shown) row.domains.forEach((domain) => bodies.at(-1).append(line(domain, { domain: true })));
  }
  return h("table", { class: "hw-evaluation" }, h("caption", { class: "hw-unseen" }, group.label), h("thead", {}, head), bodies);
}

function line(row, { key = null, shown = false, toggle = null, size = null, domain = false }) {
  const plain = row.contender === "plain";
  const fold = !domain && row.domains.length > 0
    ? h("button", { type: "button", class: "hw-fold", "data-key": key, "aria-expanded": String(shown), title: shown ? "Hide domains" : "Show domains", onclick: () => toggle(key) },
      h("span", { "aria-hidden": "true" }, shown ? "▾" : "▸"), h("span", { class: "hw-unseen" }, `Domains of ${row.label}`))
    : h("span", { class: "hw-fold" });
  const marks = domain ? [] : row.marks.map((mark) => h("span", { class: `hw-tag ${mark.kind}`, title: mark.why }, mark.text));
  return h("tr", { class: `${domain ? "hw-domain" : ""} ${plain ? "hw-plain" : ""}`.trim(), "data-contender": row.contender, "data-set": row.set },
    h("th", { scope: "row" }, h("div", { class: "hw-who" }, fold, h("span", {}, domain ? row.category : row.label, marks.length ? h("span", { class: "hw-tags" }, marks) : null))),
    h("td", {}, figure(decimal(row.acceptance_length), row.acceptance_interval, row.best.includes("acceptance_length"), 2)),
    h("td", {}, depths(row)),
    h("td", { class: "hw-kinds" }, kinds(row)),
    h("td", {}, plain ? "1" : figure(row.speedup === null ? "–" : `${decimal(row.speedup)}×`, row.speedup_interval, row.best.includes("speedup"), 2)),
    h("td", { class: "hw-terms" }, plain || row.explained === null ? "" : terms(row)),
    h("td", {}, decimal(row.tokens_per_s, 1), small(rates(row))),
    h("td", {}, percent(row.repeated)),
    h("td", {}, String(row.num_prompts), size && size > row.num_prompts ? small(`of ${size}`) : null));
}

function figure(text, interval, best, digits) {
  return [h("b", {}, text), best ? h("span", { class: "hw-best", title: "Better than every other row of its group by more than chance" }, "best") : null,
    interval ? small(`${decimal(interval.low, digits)} to ${decimal(interval.high, digits)}`) : null];
}

function small(text) {
  return text ? h("small", {}, text) : null;
}

function terms(row) {
  const sum = [row.verify, row.draft, row.overhead].map((part) => decimal(part)).join(" + ");
  return [`${decimal(row.acceptance_length)} / (${sum})`, small(`= ${decimal(row.explained)}`)];
}

/** One row: with the reading of prompts. Several: what one of them sees, and how many were open on average. */
function rates(row) {
  if (row.batch > 1) return row.row_tokens_per_s === null ? "" : `${decimal(row.row_tokens_per_s, 1)} a row, ${decimal(row.mean_rows, 1)} open`;
  return row.end_to_end_tokens_per_s === null ? "" : [`${decimal(row.end_to_end_tokens_per_s, 1)} `, term("end_to_end_tokens_per_s", "with prompt")];
}

function depths(row) {
  if (!row.marginal.length) return "";
  const text = row.marginal.map((share, at) => `depth ${at + 1}: ${sentence(row, share, at)}`).join("\n");
  const bars = row.marginal.map((share, at) => h("span", { class: "hw-depth" },
    h("i", { style: `height:${(100 * share).toFixed(1)}%` }),
    row.conditional[at] === null ? null : h("em", { style: `bottom:${(100 * row.conditional[at]).toFixed(1)}%` })));
  return h("span", { class: "hw-depths", role: "img", title: text, "aria-label": text }, bars);
}

const KINDS = ["special", "format", "content"];

/** The share of each kind's tokens that was drafted right; the counts stand in the title. */
function kinds(row) {
  const known = KINDS.map((name, at) => [name, at]).filter(([, at]) => (row.tried_by_class || [])[at]);
  return known.map(([name, at]) => h("span", { class: "hw-kind", title: `${row.accepted_by_class[at]} of ${row.tried_by_class[at]} ${name} tokens were drafted right` }, h("small", {}, `${name} `), percent(row.by_class[at])));
}

function sentence(row, share, at) {
  const tried = row.conditional[at] === null ? "" : `; ${percent(row.conditional[at])} of the ${row.drafted_per_depth[at]} that drafted a guess there`;
  return `${percent(share)} of steps accepted it (${row.accepted_per_depth[at]} of ${row.num_steps})${tried}`;
}
