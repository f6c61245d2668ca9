// What came out of a training: what each depth guesses right, how long the accepted runs are, and where to try it.

import { h } from "../dom.js";
import { duration } from "../jobs.js";
import { term } from "../terms.js";
import { decimal, percent } from "../text.js";

const RANKS = [1, 2, 3, 4, 5];

/** The parts of the result of a finished training, from the record of the job. */
export function resultParts(job) {
  const result = job.result || {};
  const numbers = result.numbers;
  if (!numbers) return [];
  const try_it = h("a", { class: "hw-primary", href: liveAddress(job) }, "Try it on the Live page");
  return [
    h("div", { class: "hw-result-figures" }, figures(result, numbers)),
    headTable(numbers.held_out || {}),
    h("div", { class: "hw-actions" }, try_it, h("code", { class: "hw-result-out", title: result.out }, result.out || "")),
  ];
}

export function liveAddress(job) {
  const query = new URLSearchParams({ target: job.config.target, drafter: (job.result || {}).out || "" });
  return `/live?${query}`;
}

function figures(result, numbers) {
  const grown = (result.tree || {}).dynamic;
  const nodes = (result.tree || []).length;
  const kept = numbers.kept_step !== undefined && numbers.kept_step !== null && numbers.kept_step !== numbers.steps;
  return [
    figure(term("acceptance_length", "Accepted when decoding"), numbers.decoded_acceptance_length, (value) => decimal(value), "tokens a step, chain, held-out prompts, T = 0"),
    figure(term("expected_acceptance_length", "Expected of its tree"), numbers.expected_acceptance_length, (value) => decimal(value), `tokens a step with ${nodes} drafted ${nodes === 1 ? "node" : "nodes"}`),
    grown ? figure(term("nodes", "Its tree"), grown.num_nodes, (value) => `${value} nodes`, `grown in every step: depth ${grown.depth}, top-k ${grown.top_k}`) : null,
    figure(term("train_s", "Trained"), numbers.train_s, duration, `${count(numbers.steps)} steps over ${count(numbers.training_positions)} positions${kept ? `; kept are the weights of step ${count(numbers.kept_step)}` : ""}`),
  ].filter(Boolean);
}

function figure(label, value, words, note) {
  if (value === undefined || value === null) return null;
  return h("div", { class: "hw-figure" }, h("span", { class: "hw-label" }, label), h("span", { class: "hw-value" }, words(value)), h("span", { class: "hw-note" }, note));
}

/** Held-out numbers by depth: how often the right token is among the best 1 to 5. */
function headTable(held) {
  const heads = Object.keys(held).map((name) => /^loss_(\d+)$/.exec(name)).filter(Boolean).map((match) => Number(match[1])).sort((a, b) => a - b);
  if (!heads.length) return h("p", { class: "hw-muted" }, "No prompt was held out, so nothing was measured.");
  const cell = (text) => h("td", null, text);
  return h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-heads-table" },
    h("caption", null, "Held-out prompts: ", term("top_k_hit", "how often the right token is among the best of its depth")),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Depth"), RANKS.map((rank) => h("th", { scope: "col" }, `top-${rank}`)), h("th", { scope: "col" }, term("loss", "loss")))),
    h("tbody", null, heads.map((head) => h("tr", null, h("th", { scope: "row" }, `${head + 1}`),
      RANKS.map((rank) => cell(percent(held[`top${rank}_${head}`], 1))), cell(decimal(held[`loss_${head}`])))))));
}

function count(value) {
  return Number(value).toLocaleString("en");
}
