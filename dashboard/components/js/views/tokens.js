// The conversation and the answer as it grows: drafted tokens that were accepted are marked, hover names the step, a click shows it.

import { h } from "../dom.js";
import { spansOf } from "../text.js";

export function mount(element, live) {
  const turns = h("div", { class: "hw-turns" });
  const answer = h("div", { class: "hw-answer", "aria-label": "Answer" });
  const legend = h("p", { class: "hw-legend" },
    h("span", { class: "hw-token drafted" }, "drafted and accepted"), h("span", { class: "hw-token" }, "the target's own token"),
    h("span", { class: "hw-hint" }, "Click a token to see its step."));
  element.replaceChildren(h("div", { class: "hw-card hw-stream" }, turns, answer, legend));
  let drawn = 0;
  let known = null;
  let marked = [];

  answer.addEventListener("click", (event) => {
    const token = event.target.closest("[data-step]");
    if (token) live.go(Number(token.dataset.step));
  });

  live.on((changed) => {
    if (changed.has("run")) {
      drawn = 0;
      known = null;
      marked = [];
      answer.replaceChildren();
    }
    const run = live.run;
    if (!run) return;
    if (run.request !== known) {
      known = run.request;
      drawTurns(turns, run.request);
    }
    if (run.prefill && !answer.firstChild) {
      answer.append(h("span", { class: "hw-token", title: "First token, from reading the prompt" }, run.prefill.text));
    }
    const atEnd = answer.scrollHeight - answer.scrollTop - answer.clientHeight < 40;
    const fresh = document.createDocumentFragment();
    for (; drawn < run.steps.length; drawn += 1) fresh.append(stepSpan(run.steps[drawn], drawn));
    answer.append(fresh);
    if (changed.has("cursor") || changed.has("steps")) marked = markStep(answer, marked, live);
    if (atEnd && live.follow) answer.scrollTop = answer.scrollHeight;
  });
}

function drawTurns(box, request) {
  if (!request) return;
  const messages = request.raw_prompt === null || request.raw_prompt === undefined
    ? request.messages : [{ role: "raw", content: request.raw_prompt }];
  box.replaceChildren(...messages.map((turn) => h("div", { class: `hw-turn ${turn.role}` },
    h("b", {}, { system: "System", user: "You", assistant: "Model", raw: "Text to continue" }[turn.role]), h("div", {}, turn.content))));
}

/** A step's text with its accepted drafted tokens marked; `each(node, text)` is told every token. */
export function stepSpan(step, index, each = () => {}) {
  const tokens = step.tokens.length;
  const title = `Step ${step.step}: ${tokens} token${tokens === 1 ? "" : "s"}, ${step.num_accepted} of ${step.num_drafted} drafted accepted`;
  return h("span", { class: "hw-step", "data-step": index, title }, spansOf(step).map((span) => {
    const node = h("span", { class: `hw-token${span.drafted ? " drafted" : ""}${/^\s*\n\s*$/.test(span.text) ? " newline" : ""}` }, span.text);
    each(node, span.text);
    return node;
  }));
}

function markStep(answer, before, live) {
  before.forEach((node) => node.classList.remove("current"));
  const node = answer.querySelector(`[data-step="${live.cursor}"]`);
  answer.classList.toggle("scrubbing", !live.follow);
  if (!node) return [];
  node.classList.add("current");
  if (!live.follow) {
    const top = node.offsetTop - answer.offsetTop;
    if (top < answer.scrollTop || top > answer.scrollTop + answer.clientHeight - 24) answer.scrollTop = top - answer.clientHeight / 2;
  }
  return [node];
}
