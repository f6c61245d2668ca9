// One lane of a race as a card: its figures, its text with what differs marked, its last draft tree. Data in, nodes out;
// what is shown is the race's.

import { sign } from "./compare_charts.js";
import { h, setText } from "./dom.js";
import { ruleLabel } from "./explain.js";
import { FOLD_ABOVE, layout } from "./layout.js";
import { term } from "./terms.js";
import { bonusPiece, decimal } from "./text.js";
import { stepSpan } from "./views/tokens.js";
import { drawing, reveal, sentence } from "./views/tree.js";

export function seconds(ms) {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

const PLACES = ["1st", "2nd", "3rd", "4th"];

export function placeName(place) {
  return place ? PLACES[place - 1] : "";
}

export class LaneCard {
  constructor(lane) {
    this.lane = lane;
    this.place = h("span", { class: "hw-race-place", hidden: true });
    this.speed = h("b", {}, "–");
    this.ratio = h("span", { class: "hw-race-ratio" });
    this.length = h("b", {}, "–");
    this.tokens = h("b", {}, "0");
    this.clock = h("b", {}, "0 ms");
    this.said = h("p", { class: "hw-race-said", hidden: true });
    this.text = h("div", { class: "hw-answer hw-race-text", "aria-label": `Answer of lane ${lane.letter}`, tabindex: "0" });
    this.stepName = h("h4", {}, "Draft tree");
    this.stepWords = h("p", { class: "hw-muted" });
    this.picture = h("div", { class: "hw-tree-scroll hw-race-tree", tabindex: "0", role: "group", "aria-label": `Draft tree of lane ${lane.letter}` });
    this.steps = h("a", { class: "hw-small", href: `/live?run=${encodeURIComponent(lane.run)}` }, "Open its steps");
    const rule = ruleLabel(lane.request);
    this.node = h("section", { class: "hw-card hw-race-lane", "data-lane": lane.letter, "aria-label": `Lane ${lane.letter}` },
      h("div", { class: "hw-race-head" }, sign(lane.place), h("b", {}, lane.letter), h("span", { class: "hw-race-name" }, lane.name), this.place),
      h("dl", { class: "hw-race-figures" },
        figure(term("tokens_per_s", "Speed"), this.speed, h("small", {}, "tokens/s"), this.ratio),
        figure(term("acceptance_length", "Acceptance length"), this.length, h("small", {}, "a step")),
        figure("Written", this.tokens, h("small", {}, "tokens")),
        figure("Own clock", this.clock)),
      this.said, this.text, h("div", { class: "hw-race-step" }, this.stepName, this.stepWords), this.picture,
      h("div", { class: "hw-race-foot" }, h("span", { class: `hw-badge ${rule.exact ? "exact" : "approximate"}`, title: rule.why }, rule.text),
        h("span", { class: "hw-muted" }, lane.request.target), h("span", { class: "hw-grow" }), this.steps));
    this.drawn = 0; // steps in the text
    this.first = null; // the token from reading the prompt
    this.marks = null;
    this.treeOf = "";
  }

  /** Shows the lane after `count` steps; `base` is what its speed is told over: {name, tokensPerS} or null. */
  draw(count, { marks, place, base, following }) {
    const { lane } = this;
    const now = lane.figures(count);
    setText(this.speed, decimal(now.tokensPerS, 1));
    const ratio = base && base.tokensPerS && now.tokensPerS ? now.tokensPerS / base.tokensPerS : null;
    setText(this.ratio, ratio === null ? "" : `${decimal(ratio)}× ${base.name}`);
    this.ratio.dataset.way = ratio === null ? "" : ratio >= 1 ? "good" : "bad";
    setText(this.length, decimal(now.acceptanceLength));
    setText(this.tokens, String(now.tokens));
    setText(this.clock, seconds(now.clock));
    setText(this.place, placeName(place));
    this.place.hidden = !place;
    this.node.dataset.place = place || "";
    const run = lane.live.run;
    const said = !run ? "" : run.status === "failed" ? run.error : run.status === "cancelled" ? "Stopped." : lane.pruned ? "Its steps are no longer kept; this is how it ended." : run.warnings.join(" ");
    setText(this.said, said);
    this.said.hidden = !said;
    this.said.dataset.kind = run && run.status === "failed" ? "error" : "warning";
    this.write(count, marks, following);
    this.drawTree(count);
  }

  write(count, marks, following) {
    const { lane } = this;
    const key = JSON.stringify(marks);
    if (key !== this.marks) { // what is marked may lie anywhere in what was written
      this.marks = key;
      this.text.replaceChildren();
      this.drawn = 0;
      this.first = null;
    }
    const run = lane.live.run;
    if (lane.pruned) setText(this.text, run.result.text);
    if (!run || !run.prefill || lane.pruned) return;
    const atEnd = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 40;
    if (!this.first) {
      this.first = h("span", { class: "hw-token", title: "First token, from reading the prompt" }, run.prefill.text);
      mark(this.first, 0, run.prefill.text.length, marks);
      this.text.append(this.first);
    }
    while (this.drawn > count) {
      this.text.lastChild.remove();
      this.drawn -= 1;
    }
    const fresh = document.createDocumentFragment();
    for (; this.drawn < count; this.drawn += 1) {
      let at = lane.start(this.drawn);
      fresh.append(stepSpan(run.steps[this.drawn], this.drawn, (node, text) => {
        mark(node, at, at + text.length, marks);
        at += text.length;
      }));
    }
    this.text.append(fresh);
    if (following && atEnd) this.text.scrollTop = this.text.scrollHeight;
  }

  drawTree(count) {
    const key = `${count} ${this.lane.over}`;
    if (this.treeOf === key) return;
    this.treeOf = key;
    const { steps } = this.lane.live.run || { steps: [] };
    const step = steps[count - 1];
    setText(this.stepName, step ? `Draft tree of step ${step.step}` : "Draft tree");
    setText(this.stepWords, step ? sentence(step) : "");
    if (!step || !step.tree) {
      this.picture.replaceChildren(h("p", { class: "hw-nothing" }, step ? "This step was stored without its tree." : this.lane.over ? "There is no step to show." : "The first step will appear here."));
      return;
    }
    const plan = layout(step.tree, { bonus: bonusPiece(step, steps[count]), fold: step.num_drafted > FOLD_ABOVE });
    this.picture.replaceChildren(drawing(plan, step.tree));
    reveal(this.picture, plan);
  }
}

function figure(label, ...children) {
  return h("div", {}, h("dt", {}, label), h("dd", {}, children));
}

/** Marks a token that lies in [from, to) of the lane's text: differing, and where the text leaves the other one's. */
function mark(node, from, to, marks) {
  if (!marks) return;
  if (marks.stretches.some(([start, end]) => start < to && end > from)) {
    node.classList.add("differs");
    node.title = marks.against ? `Differs from ${marks.against}'s text` : "Differs from another lane's text";
  }
  if (marks.at !== null && marks.at >= from && marks.at < to) {
    node.classList.add("leaves");
    node.title = `Here it leaves ${marks.against}'s text`;
  }
}
