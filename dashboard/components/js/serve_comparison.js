// Headway's own chain decoding and vLLM on the same prompts, as parts of the page. Pure.

import { h } from "./dom.js";

const FAR = 0.02; // two rates that differ by more are marked

/** Elements for `found`: {positions, domains, contexts, equal, causes, prompts}. */
export function comparisonParts(found) {
  const both = found.equal.with_and_without;
  const own = found.equal.served_and_own;
  const equal = [both && `vLLM's answers with and without the drafter: ${both.same} of ${both.of} equal, token by token.`, `vLLM's answers and Headway's: ${own.same} of ${own.of} equal.`];
  return [h("p", { class: "hw-serve-verdict" }, equal.filter(Boolean).join(" ")),
    h("ul", { class: "hw-serve-causes" }, found.causes.map((cause) => h("li", {}, cause))),
    rates("All prompts", found.prompts, found.positions),
    ...(found.domains.length > 1 ? found.domains.map((group) => rates(group.label, group.prompts, group.positions)) : []),
    ...(found.contexts.length > 1 ? found.contexts.map((group) => rates(`Prompts of ${group.label} tokens`, group.prompts, group.positions)) : [])];
}

function rates(title, prompts, positions) {
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const line = (row) => h("tr", { class: Math.abs(row.difference) > FAR ? "hw-far" : "" }, h("th", { scope: "row" }, String(row.position)), h("td", {}, percent(row.own)), h("td", {}, percent(row.served)),
    h("td", {}, `${row.difference >= 0 ? "+" : "−"}${(100 * Math.abs(row.difference)).toFixed(1)}`), h("td", {}, `${row.own_steps} / ${row.served_steps}`));
  const head = ["Position", "Headway", "vLLM", "Difference, points", "Steps"];
  return h("section", {}, h("h4", {}, `${title} (${prompts})`), h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation" },
    h("thead", {}, h("tr", {}, head.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, positions.map(line)))));
}
