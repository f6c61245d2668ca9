// The run in four figures, with the run before it beside them, and the conditions they hold under.

import { h } from "../dom.js";
import { ruleLabel } from "../explain.js";
import { difference, shortTree } from "../store.js";
import { redraw, term } from "../terms.js";
import { decimal, percent } from "../text.js";

const PARTS = [["verify", "target"], ["draft", "drafting"], ["commit", "accepting"], ["loop", "loop"]];
const PAUSE_MS = 100; // the figures change with every step; people cannot read faster

export function mount(element, live) {
  const grid = h("div", { class: "hw-figures" });
  const conditions = h("p", { class: "hw-conditions" });
  element.replaceChildren(h("section", { class: "hw-card hw-numbers", "aria-label": "Figures" }, grid, conditions));
  let waiting = null;
  const draw = () => {
    waiting = null;
    if (!live.run) return;
    const now = live.run.figures();
    redraw(grid, cards(now, live.previous ? live.previous.figures : null, live.run.over));
    conditions.replaceChildren(...conditionWords(live));
  };
  live.on((changed) => {
    if (changed.has("run")) grid.replaceChildren();
    if (changed.has("run") || changed.has("status")) draw();
    else if (changed.has("steps") && waiting === null) waiting = setTimeout(draw, PAUSE_MS);
  });
}

function cards(now, before, over) {
  return [
    card(term("acceptance_length", "Acceptance length"), decimal(now.acceptanceLength), "tokens a step",
      now.steps ? `${now.tokens} tokens in ${now.steps} steps` : "no steps yet",
      before && before.acceptanceLength !== null ? `before ${decimal(before.acceptanceLength)}` : null),
    card(term("tokens_per_s", "Speed"), decimal(now.tokensPerS, 1), "tokens/s", besidePlain(now, over),
      before && before.tokensPerS !== null ? `before ${decimal(before.tokensPerS, 1)}` : null),
    card(term("acceptance_rate", "Drafted tokens accepted"), percent(now.drafted ? now.accepted / now.drafted : null), "",
      `${now.accepted} of ${now.drafted}`,
      before && before.drafted ? `before ${percent(before.accepted / before.drafted)}` : null),
    times(now),
  ];
}

function besidePlain(now, over) {
  if (now.plainTokensPerS && now.tokensPerS) {
    const ratio = now.tokensPerS / now.plainTokensPerS;
    return h("span", {}, h("b", { class: ratio >= 1 ? "good" : "bad" }, `${decimal(ratio)}×`), " ", term("speedup", "plain decoding"), ` (${decimal(now.plainTokensPerS, 1)})`);
  }
  return over ? "plain decoding was not measured" : "plain decoding: at the end of the run";
}

function card(label, value, unit, note, before) {
  return h("div", { class: "hw-figure" }, h("span", { class: "hw-label" }, label),
    h("span", { class: "hw-value" }, value, unit ? h("small", {}, unit) : null),
    h("span", { class: "hw-note" }, note), h("span", { class: "hw-before" }, before || " "));
}

function times(now) {
  const total = PARTS.reduce((sum, [key]) => sum + now.times[key], 0);
  const shares = PARTS.map(([key, name]) => ({ key, name, share: total ? now.times[key] / total : null }));
  return h("div", { class: "hw-figure hw-times" }, h("span", { class: "hw-label" }, term("time_shares", "Where the time goes")),
    h("div", { class: "hw-bar", role: "img", "aria-label": shares.map((part) => `${part.name} ${percent(part.share)}`).join(", ") },
      shares.map((part) => {
        const piece = h("i", { class: part.key });
        piece.style.width = `${100 * (part.share || 0)}%`;
        return piece;
      })),
    h("div", { class: "hw-shares" }, shares.map((part) => h("span", { class: part.key }, h("i"), part.name, h("b", {}, percent(part.share))))),
    identity(now), h("span", { class: "hw-before" }, now.steps ? `${decimal(now.whole / now.steps, now.whole < 100 * now.steps ? 1 : 0)} ms/step` : " "));
}

// Speedup = acceptance length / (checking + drafting + rest), each in units of a plain step: says where a speedup comes from.
function identity(now) {
  if (!now.plainTokensPerS || !now.steps) return null;
  const unit = (now.steps * 1000) / now.plainTokensPerS; // what as many plain steps would have taken
  const check = now.times.verify / unit;
  const draft = now.times.draft / unit;
  const rest = (now.times.commit + now.times.loop) / unit;
  return h("span", { class: "hw-note", title: "A plain step is 1. Speedup = acceptance length / (checking + drafting + rest)." },
    "in plain steps: ", term("verify_cost", "checking"), ` ${decimal(check)}, `, term("draft_cost", "drafting"), ` ${decimal(draft)}, `, term("overhead_cost", "rest"), ` ${decimal(rest)}; `,
    `${decimal(now.acceptanceLength)} / ${decimal(check + draft + rest)} = ${decimal(now.acceptanceLength / (check + draft + rest))}×`);
}

function conditionWords(live) {
  const { request, conditions } = live.run;
  if (!request) return [];
  const rule = ruleLabel(request);
  const { num_nodes: nodes, threads, device, dtype } = conditions || {};
  const cut = request.max_depth === null || request.max_depth === undefined ? "" : ` cut at depth ${request.max_depth}`;
  const tree = `tree ${shortTree(request.tree)}${cut}${nodes === undefined ? "" : `, ${nodes} node${nodes === 1 ? "" : "s"}`}`;
  const words = [request.target, request.drafter, tree, `T ${request.temperature}`, `seed ${request.seed}`];
  words.push(...[device, dtype, threads ? `${threads} thread${threads === 1 ? "" : "s"}` : null].filter(Boolean));
  if (live.run.result && live.run.result.contended) words.push("device shared with other work");
  const changed = live.previous ? difference(request, live.previous.request) : "";
  return [h("span", { class: `hw-badge ${rule.exact ? "exact" : "approximate"}`, title: rule.why }, rule.text),
    h("span", {}, words.join(" · ")), changed ? h("span", { class: "hw-changed" }, `changed since the run before: ${changed}`) : null].filter(Boolean);
}
