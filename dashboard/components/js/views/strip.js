// Accepted tokens, a bar a step; a click shows the step. Bars are only ever added.

import { h, setText } from "../dom.js";

const MAX_HEIGHT = 44;

export function mount(element, live) {
  const bars = h("div", { class: "hw-bars", "aria-hidden": "true" });
  const scale = h("span", { class: "hw-strip-scale" });
  element.replaceChildren(h("div", { class: "hw-strip" }, h("div", { class: "hw-strip-head" },
    h("span", { class: "hw-label" }, "Accepted per step"), scale), bars));
  let unit = 0;
  let current = null;

  bars.addEventListener("click", (event) => {
    const bar = event.target.closest("[data-index]");
    if (bar) live.go(Number(bar.dataset.index));
  });

  live.on((changed) => {
    const run = live.run;
    if (changed.has("run")) {
      bars.replaceChildren();
      current = null;
    }
    if (!run) return;
    const height = MAX_HEIGHT / (run.maxDepth + 1);
    if (height !== unit) {
      unit = height;
      bars.style.setProperty("--unit", `${unit}px`);
    }
    setText(scale, `▆ accepted, ▁ the target's own token; most in a step: ${run.highest}`);
    const fresh = document.createDocumentFragment();
    for (let index = bars.childNodes.length; index < run.steps.length; index += 1) fresh.append(bar(run.steps[index], index));
    bars.append(fresh);
    if (changed.has("cursor") || changed.has("steps")) current = mark(bars, current, live);
  });
}

function bar(step, index) {
  const accepted = h("i", { class: "accepted" });
  accepted.style.setProperty("--count", step.num_accepted);
  return h("span", { class: "hw-bar-step", "data-index": index, title: `Step ${step.step}: ${step.num_accepted} accepted` }, accepted, h("i", { class: "own" }));
}

function mark(bars, before, live) {
  const node = bars.childNodes[live.cursor] || null;
  if (node === before) return node;
  if (before) before.classList.remove("current");
  if (!node) return null;
  node.classList.add("current");
  const left = node.offsetLeft - bars.offsetLeft;
  if (left < bars.scrollLeft + 8 || left > bars.scrollLeft + bars.clientWidth - 16) {
    bars.scrollLeft = live.follow ? left : left - bars.clientWidth / 2;
  }
  return node;
}
