// One node in numbers and a sentence: what the drafter thought, what the target thought, and why the rule decided as it did.

import { h } from "../dom.js";
import { explain, numberNames, verdictName } from "../explain.js";
import { deepestAccepted } from "../layout.js";
import { term } from "../terms.js";
import { REJECTED, percent, probability, visible } from "../text.js";

export function mount(element, live) {
  const box = h("section", { class: "hw-card hw-inspector", "aria-live": "polite", "aria-label": "Node" });
  element.replaceChildren(box);
  live.on((changed) => {
    if (!["run", "node", "cursor", "steps"].some((name) => changed.has(name))) return;
    const step = live.step;
    if (!step || !step.tree) {
      box.replaceChildren(h("h3", {}, "Node"), h("p", { class: "hw-muted" }, "Point at a node of the tree to see why it was accepted or rejected."));
      return;
    }
    const column = live.node !== null && live.node < step.tree.tokens.length ? live.node : telling(step.tree);
    box.replaceChildren(...content(step, column, live));
  });
}

/** A node that says something by itself: the deepest accepted one, else the first rejected one, else the root. */
function telling(tree) {
  const deepest = deepestAccepted(tree);
  return deepest || Math.max(0, tree.verdicts.indexOf(REJECTED));
}

function content(step, column, live) {
  const tree = step.tree;
  const request = live.run.request;
  const next = live.run.steps[live.cursor + 1];
  const name = column === 0 ? "root" : verdictName(tree.verdicts[column]);
  const [scoreName, thresholdName] = numberNames(request);
  const number = (value) => (scoreName === "Target logit" ? (value === null ? "–" : value.toFixed(2)) : probability(value));
  const rows = [["Token id", tree.tokens[column]], [term("depth", "Depth"), depthOf(tree, column)]];
  if (column > 0) {
    rows.push([term("confidence", "Draft probability"), probability(tree.draft_probs[column])], [term("target_probability", "Target probability"), probability(tree.target_probs[column])]);
    if (tree.scores[column] !== null) rows.push([term("acceptance_threshold", scoreName), number(tree.scores[column])], [term("acceptance_threshold", thresholdName), number(tree.thresholds[column])]);
  }
  return [
    h("div", { class: "hw-card-head" }, h("code", { class: "hw-piece" }, visible(tree.pieces[column], 28)), h("span", { class: `hw-verdict ${name.replace(" ", "-")}` }, name)),
    h("p", { class: "hw-why" }, explain(step, column, request, next)),
    h("dl", {}, rows.filter(([, value]) => value !== null).map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)])),
    h("p", { class: "hw-muted" }, "After it the target prefers ", h("code", {}, visible(tree.best_pieces[column], 20)), ` (${percent(tree.best_probs[column])}).`),
  ];
}

function depthOf(tree, column) {
  let depth = 0;
  for (let at = column; at > 0; at = tree.parents[at]) depth += 1;
  return depth;
}
