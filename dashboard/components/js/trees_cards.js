// The cards below the best tree: hits as a heat map, the cost curve, confidence against what came true, and the same
// findings in the words of serving engines. Pure: data in, elements out.

import { h } from "./dom.js";
import { colour, miniChart } from "./mini_chart.js";
import { term } from "./terms.js";
import { decimal, percent } from "./text.js";

/** Rates by depth and rank; a switch between all positions and those whose path was right. */
export function hitsCard(data) {
  const { tables } = data.calibration;
  const kinds = [["conditional", "Given that the path was right"]];
  if (tables.parallel) kinds.unshift(["marginal", "At every position"]);
  let kind = kinds[0][0];
  const table = h("div", { class: "hw-table-scroll" });
  const chips = h("div", { class: "hw-evaluation-choice", role: "group", "aria-label": "Which rates" });
  const draw = () => {
    table.replaceChildren(heatMap(tables[kind]));
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.kind === kind));
  };
  chips.replaceChildren(...kinds.map(([name, text]) => h("button", { type: "button", class: "hw-chip", "data-kind": name, onclick: () => { kind = name; draw(); } }, text)));
  chips.hidden = kinds.length < 2;
  draw();
  return h("section", { class: "hw-card hw-trees-hits", "aria-label": "Hits" },
    h("div", { class: "hw-card-head" }, h("h3", {}, term("hit_rate", "How often a guess is right")), h("span", { class: "hw-grow" }), chips),
    h("p", { class: "hw-muted" }, `${tables.positions.toLocaleString("en")} positions in ${tables.prompts} prompts. Columns: the drafter's 1st, 2nd, … choice; rows: how far ahead.`),
    table, groups(tables.groups));
}

function heatMap(rows) {
  const used = rows.filter((row) => row.length);
  const ranks = Math.max(0, ...used.map((row) => row.length));
  const head = h("tr", {}, h("th", { scope: "col" }, "Depth"), Array.from({ length: ranks }, (_, rank) => h("th", { scope: "col" }, String(rank + 1))), h("th", { scope: "col" }, "Tried"));
  const line = (row, depth) => h("tr", {}, h("th", { scope: "row" }, String(depth + 1)), row.map((one) => cell(one)), h("td", { class: "hw-tried" }, row.length ? row[0].tried.toLocaleString("en") : ""));
  return h("table", { class: "hw-heat" }, h("thead", {}, head), h("tbody", {}, rows.map((row, depth) => (row.length ? line(row, depth) : null))));
}

function cell(one) {
  if (one.rate === null) return h("td", {}, "–");
  const between = one.interval ? `, ${percent(one.interval.low, 1)} to ${percent(one.interval.high, 1)}` : "";
  const share = Math.min(1, one.rate / 0.6);
  return h("td", { class: share > 0.55 ? "strong" : "", style: `--share:${(100 * share).toFixed(0)}%`, title: `${one.hits} of ${one.tried}${between}` },
    percent(one.rate, one.rate < 0.1 ? 1 : 0));
}

/** First choices by domain, temperature and context, where there are several. */
function groups(found) {
  const parts = Object.entries(found).filter(([, named]) => Object.keys(named).length > 1);
  if (!parts.length) return null;
  return h("details", { class: "hw-trees-groups" }, h("summary", {}, "The 1st choice by ", parts.map(([title]) => title).join(", ")),
    parts.map(([title, named]) => {
      const deepest = Math.max(...Object.values(named).map((rows) => rows.length));
      return h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-heat" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title[0].toUpperCase() + title.slice(1)), Array.from({ length: deepest }, (_, d) => h("th", { scope: "col" }, `depth ${d + 1}`)), h("th", { scope: "col" }, "Tried"))),
        h("tbody", {}, Object.entries(named).map(([name, rows]) => h("tr", {}, h("th", { scope: "row" }, name), rows.map((one) => cell(one)), h("td", { class: "hw-tried" }, rows.length ? rows[0].tried.toLocaleString("en") : ""))))));
    }));
}

export function costCard(data) {
  const { cost } = data;
  if (!cost) return null;
  const lines = cost.lines.map((line, at) => ({
    name: `${line.batch === 1 ? "1 sequence" : `${line.batch} at once`}, ${line.context} tokens before`, colour: colour(at),
    points: line.rows.map((rows, i) => ({ x: rows, y: line.ms[i], dashed: line.extrapolated[i], dot: line.measured[i],
      title: `${rows} rows: ${decimal(line.ms[i], 2)} ms` })),
  }));
  const knee = cost.knee ? `Up to about ${cost.knee} rows a pass costs little more than one row; beyond that every row costs.` : "Within what was measured, passes hardly grow with their rows.";
  return h("section", { class: "hw-card hw-trees-cost", "aria-label": "Cost" }, h("h3", {}, term("pass_ms", "What a pass costs here")),
    h("p", { class: "hw-muted" }, knee), miniChart({ lines, xTitle: "rows of a pass (drafted nodes and the root)", yTitle: "ms", xLog: true, label: "Time of a pass by rows" }),
    legend(lines), h("p", { class: "hw-conditions" }, h("span", {}, cost.conditions.device || "times by hand"), h("span", {}, `${cost.conditions.dtype || ""}, ${cost.conditions.threads} thread${cost.conditions.threads === 1 ? "" : "s"}`),
      h("span", {}, `medians of ${cost.repeats} round${cost.repeats === 1 ? "" : "s"}; dashed: extrapolated`)));
}

export function confidenceCard(data) {
  const bins = data.calibration.tables.reliability;
  if (!bins.length) return null;
  const depths = [...new Set(bins.map((one) => one.depth))];
  const lines = depths.map((depth, at) => ({
    name: `depth ${depth}`, colour: colour(at), dots: true,
    points: bins.filter((one) => one.depth === depth).map((one) => ({
      x: one.mean_confidence, y: one.rate.rate, low: one.rate.interval?.low ?? null, high: one.rate.interval?.high ?? null, dot: true,
      size: Math.max(2, Math.min(6, Math.log10(one.rate.tried + 1) * 1.6)), title: `depth ${depth}: ${one.rate.hits} of ${one.rate.tried} guesses right` })),
  }));
  return h("section", { class: "hw-card hw-trees-confidence", "aria-label": "Confidence" }, h("h3", {}, term("confidence", "Confidence against what came true")),
    h("p", { class: "hw-muted" }, "On the line the drafter's own probability is the chance of being right; below it is too sure of itself. Guesses under a right path; bars: 95 %."),
    miniChart({ lines, xTitle: "the drafter's probability", yTitle: "right", diagonal: true, xRange: [0, 1], yRange: [0, 1], label: "Confidence against share of right guesses" }), legend(lines));
}

function legend(lines) {
  return h("p", { class: "hw-legend" }, lines.map((line) => {
    const swatch = h("i", {});
    swatch.style.background = line.colour;
    return h("span", {}, swatch, line.name);
  }));
}

/** Dynamic trees, stops by confidence, batches, and what engines are told. */
export function servingCard(data) {
  if (!data.by_batch || !data.by_batch.length) return null;
  const rows = data.by_batch.map((one) => h("tr", {}, h("th", { scope: "row" }, String(one.batch)), h("td", {}, one.num_nodes ? `${one.num_nodes} node${one.num_nodes === 1 ? "" : "s"}` : "switch it off"),
    h("td", {}, decimal(one.expected_acceptance_length)), h("td", {}, decimal(one.expected_tokens_per_s, 1)), h("td", {}, decimal(one.plain_tokens_per_s, 1)),
    h("td", {}, `${decimal(one.speedup)}×`, one.extrapolated ? h("span", { class: "hw-tag contended", title: "From times beyond what was measured" }, "extrapolated") : null)));
  const others = [];
  const { dynamic, confidence_stops: stops } = data;
  if (dynamic) {
    others.push(h("li", {}, `Dynamic tree: ${dynamic.levels} levels, top-k ${dynamic.top_k}, ${dynamic.num_nodes} nodes: ${decimal(dynamic.expected_acceptance_length)} tokens a step, ${decimal(dynamic.expected_tokens_per_s, 1)} tokens/s. `
      + `EAGLE: total_token ${dynamic.eagle.total_token}, depth ${dynamic.eagle.depth}, top_k ${dynamic.eagle.top_k}; SGLang: ${dynamic.sglang.speculative_num_steps} steps, top-k ${dynamic.sglang.speculative_eagle_topk}, ${dynamic.sglang.speculative_num_draft_tokens} draft tokens (the root counts).`));
  }
  if (stops) {
    const bars = stops.thresholds.map((bar) => (bar === null ? "never" : decimal(bar))).join(", ");
    others.push(h("li", {}, `A chain that stops by confidence: ${decimal(stops.expected_acceptance_length)} tokens a step, ${decimal(stops.expected_tokens_per_s, 1)} tokens/s; another level where the product so far is at least ${bars} (chosen children only).`));
  }
  return h("section", { class: "hw-card hw-trees-serving", "aria-label": "Serving" }, h("h3", {}, "By batch, and for serving engines"),
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation" },
      h("thead", {}, h("tr", {}, ["At once", term("nodes", "Best tree"), term("expected_acceptance_length", "Length"), term("expected_tokens_per_s", "Tokens/s"), "Plain", term("speedup", "Speedup")].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))),
    data.break_even_batch ? h("p", { class: "hw-muted" }, term("break_even_batch", `From ${data.break_even_batch} sequences at once`), ", plain decoding is faster.") : null,
    h("ul", { class: "hw-trees-list" }, others,
      h("li", {}, "vLLM: ", h("code", {}, `"num_speculative_tokens_per_batch_size": ${JSON.stringify(data.num_speculative_tokens_per_batch_size)}`)),
      h("li", {}, "SGLang, adaptive steps from a batch on: ", h("code", {}, JSON.stringify(data.sglang_adaptive_steps)))));
}
