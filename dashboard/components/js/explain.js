// Why a node was accepted or not, in plain English. Pure functions of one step's trace and the run's request.
//
// What `scores` and `thresholds` mean depends on the rule: greedy compares logits; rejection of chosen drafts compares the
// node's p with the p of the token the target drew; of sampled drafts min(1, p/q) with a random u; typical p with its bound.

import { ACCEPTED, REJECTED, bonusPiece, probability, quoted } from "./text.js";

/** greedy, chosen, sampled or typical: the test that was made. At T = 0 every rule is greedy. */
export function testOf(request) {
  if (!request || request.rule === "greedy" || !request.temperature) return "greedy";
  if (request.rule === "typical") return "typical";
  return request.sampled ? "sampled" : "chosen";
}

export function ruleLabel(request) {
  const test = testOf(request);
  if (request && request.rule === "typical") {
    return { text: "approximate", exact: false, why: test === "greedy"
      ? "Typical acceptance; at temperature 0 it is the same as greedy."
      : "Typical acceptance keeps what the target finds plausible: the output is not distributed as the target's own." };
  }
  return { text: "exact", exact: true, why: test === "greedy"
    ? "Greedy: the same tokens as decoding without a drafter."
    : "Rejection sampling: the same distribution as decoding without a drafter." };
}

export function verdictName(verdict) {
  return { [ACCEPTED]: "accepted", [REJECTED]: "rejected" }[verdict] || "not reached";
}

/** What the inspector's number rows are called: [score, threshold], null where the rule has none to show. */
export function numberNames(request) {
  return {
    greedy: ["Target logit", "Best logit"],
    chosen: ["Target p", "p of the drawn token"],
    sampled: ["min(1, p/q)", "u drawn"],
    typical: ["Target p", "min(ε, δ·e^−H)"],
  }[testOf(request)];
}

/** The sentence for a column of the step; `next` is the following step, which knows the bonus token's text. */
export function explain(step, column, request, next) {
  const tree = step.tree;
  const piece = quoted(tree.pieces[column]);
  if (column === 0) return `${piece} is the last committed token; everything drafted hangs under it.`;
  const parent = tree.parents[column];
  const verdict = tree.verdicts[column];
  if (verdict !== ACCEPTED && verdict !== REJECTED) return notReached(tree, parent);
  const test = testOf(request);
  if (test === "typical") return typical(tree, column, verdict, piece);
  if (test === "sampled") return sampled(tree, column, verdict, piece);
  const taken = takenUnder(step, parent, next);
  const choice = test === "greedy" ? "The target's own choice here" : "The token the target drew here";
  if (verdict === ACCEPTED) return `${choice} was ${piece} (p = ${probability(tree.target_probs[column])}): the draft was right.`;
  return test === "greedy"
    ? `${choice} was ${greedyChoice(tree, parent)}, not ${piece}.`
    : `${choice} was ${taken ? quoted(taken) : "another one"}, not ${piece}.`;
}

function greedyChoice(tree, parent) {
  return `${quoted(tree.best_pieces[parent])} (p = ${probability(tree.best_probs[parent])})`;
}

function notReached(tree, parent) {
  const verdict = tree.verdicts[parent];
  if (verdict === REJECTED) return `Its parent ${quoted(tree.pieces[parent])} was rejected, so this was never looked at.`;
  if (verdict === ACCEPTED) return "A sibling was accepted before this one was tried.";
  return "An earlier token on its path was rejected, so this was never looked at.";
}

function typical(tree, column, verdict, piece) {
  const p = probability(tree.scores[column] ?? tree.target_probs[column]);
  const bound = probability(tree.thresholds[column]);
  const passed = tree.scores[column] > tree.thresholds[column];
  if (verdict === ACCEPTED) return `p ${p} > min(ε, δ·e^−H) = ${bound}: the target finds ${piece} plausible.`;
  if (passed) return `p ${p} > ${bound}: plausible, but another accepted path was longer or likelier.`;
  return `p ${p} ≤ min(ε, δ·e^−H) = ${bound}: the target finds ${piece} implausible here.`;
}

function sampled(tree, column, verdict, piece) {
  const ratio = probability(tree.scores[column]);
  const u = probability(tree.thresholds[column]);
  if (verdict === ACCEPTED) return `u = ${u} < min(1, p/q) = ${ratio}: ${piece} is kept.`;
  return `u = ${u} ≥ min(1, p/q) = ${ratio}: ${piece} is dropped, and the next sibling meets what is left of p.`;
}

/** Text of the token that followed `column`: its accepted child, or the target's own token at the end of the path. */
function takenUnder(step, column, next) {
  const tree = step.tree;
  const child = tree.parents.findIndex((parent, at) => at > 0 && parent === column && tree.verdicts[at] === ACCEPTED);
  return child > 0 ? tree.pieces[child] : bonusPiece(step, next);
}
