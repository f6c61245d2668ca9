// Names of numbers that explain themselves: a click or a key on one opens its entry of the glossary (backend/glossary.yaml).
// One box a page. The entry is fetched at the first click and written with textContent only.

import { h } from "./dom.js";
import { knobParts } from "./knob_card.js";

const EDGE = 12; // px between the box and the window's border
const GAP = 6; // px between the box and the name
const KNOB = "knob.";
const SAME_PRESS_MS = 300;
const SYSTEMS = [["vllm", "vLLM"], ["sglang", "SGLang"], ["eagle", "EAGLE"], ["medusa", "Medusa"]];
let opened = null; // {button, metric, box}
let pressed = null; // the name that the pointer went down on
let openedAt = 0;
let known = null; // promise of the entries

/** A metric's name as a button; `metric` is its key in the glossary, `text` what this page calls it. */
export function term(metric, text) {
  return h("button", { type: "button", class: "hw-term", "data-metric": metric, "aria-haspopup": "dialog", title: "What this number means" }, text);
}

/** A small mark beside a name that is a button of its own already, such as one that sorts. */
export function termMark(metric, name) {
  const mark = term(metric, "?");
  mark.classList.add("hw-term-mark");
  mark.setAttribute("aria-label", `What ${name} means`);
  return mark;
}

/** The same beside the name of a setting; `knob` is its key among the glossary's knobs. */
export function knobMark(knob, name) {
  const mark = termMark(KNOB + knob, name);
  mark.removeAttribute("aria-label"); // the field itself is looked for by that name
  mark.title = `What ${name} does`;
  return mark;
}

/** Draws `node` anew; the focus stays on a name that was there before and still is. */
export function redraw(node, children) {
  const metric = node.contains(document.activeElement) ? document.activeElement.dataset.metric : null;
  node.replaceChildren(...children);
  const there = metric && node.querySelector(`.hw-term[data-metric="${metric}"]`);
  if (there) there.focus({ preventScroll: true });
}

/** Listens on the whole document, so that what is drawn anew all the time needs no listeners of its own. */
export function mountTerms(feed) {
  document.addEventListener("pointerdown", (event) => { pressed = termAt(event.target); }, true);
  document.addEventListener("pointerup", (event) => {
    const there = redrawn(event);
    if (there) toggle(feed, there);
  }, true);
  document.addEventListener("click", (event) => {
    const button = termAt(event.target);
    if (button) {
      event.preventDefault();
      event.stopPropagation();
      toggle(feed, button);
    } else if (opened && !opened.box.contains(event.target) && event.timeStamp - openedAt > SAME_PRESS_MS) close(false);
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !opened) return;
    event.stopPropagation();
    close();
  }, true);
  window.addEventListener("resize", () => { if (opened) place(opened.box, opened.button); });
}

function termAt(node) {
  return node && node.closest ? node.closest(".hw-term[data-metric]") : null;
}

/** Figures of a running decode are drawn anew ten times a second. What was pressed is gone then, and no click comes. */
function redrawn(event) {
  if (!pressed || pressed.isConnected) return null;
  const there = termAt(document.elementFromPoint(event.clientX, event.clientY));
  if (!there || there.dataset.metric !== pressed.dataset.metric) return null;
  openedAt = event.timeStamp;
  return there;
}

function toggle(feed, button) {
  if (opened && opened.metric === button.dataset.metric) close();
  else open(feed, button);
}

async function open(feed, button) {
  close(false);
  const metric = button.dataset.metric;
  const box = h("div", { class: "hw-explained", role: "dialog", tabindex: "-1", "aria-label": button.getAttribute("aria-label") || (metric.startsWith(KNOB) ? button.title : button.textContent), "data-explains": metric }, h("p", { class: "hw-muted" }, "…"));
  opened = { button, metric, box };
  document.body.append(box);
  place(box, button);
  box.focus({ preventScroll: true });
  try {
    const entries = await (known = known || feed.ask("/headway/glossary"));
    if (opened && opened.box === box) box.replaceChildren(...entry(entries, metric));
  } catch (error) {
    known = null; // asked again at the next click
    box.replaceChildren(h("p", { class: "hw-problem", role: "alert" }, error.message));
  }
  place(box, button);
}

function entry(entries, metric) {
  const knob = metric.startsWith(KNOB) ? entries.knobs[metric.slice(KNOB.length)] : null;
  const shut = h("button", { type: "button", class: "hw-icon", "aria-label": "Close", title: "Close (Esc)", onclick: () => close() }, "✕");
  if (knob) {
    const [title, ...rest] = knobParts(knob);
    return [h("div", { class: "hw-explained-head" }, title, shut), ...rest];
  }
  const found = entries.metrics[metric];
  if (!found) return [h("p", { class: "hw-problem", role: "alert" }, `The glossary has no entry “${metric}”.`)];
  return [
    h("div", { class: "hw-explained-head" }, h("h3", {}, found.name), shut),
    h("p", {}, found.definition),
    h("p", { class: "hw-formula" }, found.formula),
    h("p", {}, h("b", {}, "Holds for. "), found.conditions),
    h("h4", {}, "How others count it"),
    h("dl", {}, SYSTEMS.map(([key, name]) => [h("dt", {}, name), h("dd", {}, found[key])])),
    found.also.length ? h("p", { class: "hw-muted" }, `Also called: ${found.also.join(", ")}.`) : null,
  ].filter(Boolean);
}

/** Takes the box away; with `back` the focus returns to the name, or to the one drawn in its place since. */
function close(back = true) {
  if (!opened) return;
  const { button, metric, box } = opened;
  opened = null;
  box.remove();
  if (!back) return;
  const there = button.isConnected ? button : document.querySelector(`.hw-term[data-metric="${metric}"]`);
  if (there) there.focus({ preventScroll: true });
}

/** Below the name where there is room, else above or beside it; never outside of the window. */
function place(box, button) {
  if (button.isConnected) box.at = button.getBoundingClientRect();
  const { at } = box; // a name that was drawn anew meanwhile is remembered where it was
  const { offsetWidth: width, offsetHeight: height } = box;
  const inside = (from, size, room) => Math.max(EDGE, Math.min(from, room - size - EDGE));
  const below = at.bottom + GAP + height + EDGE <= window.innerHeight;
  const above = at.top - GAP - height >= EDGE;
  const right = at.right + GAP + width + EDGE <= window.innerWidth;
  const beside = !below && !above && (right || at.left - GAP - width >= EDGE);
  const left = !beside ? at.left : right ? at.right + GAP : at.left - GAP - width;
  const top = below ? at.bottom + GAP : above ? at.top - GAP - height : beside ? at.top : at.bottom + GAP;
  box.style.left = `${inside(left, width, window.innerWidth)}px`;
  box.style.top = `${inside(top, height, window.innerHeight)}px`;
}
