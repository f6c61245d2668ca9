// The draft tree of the step that is shown. Verdicts differ by shape as well as by colour.

import { s, h, setText } from "../dom.js";
import { EXAMPLE } from "../example.js";
import { FOLD_ABOVE, GAP, layout } from "../layout.js";
import { ACCEPTED, REJECTED, bonusPiece, probability } from "../text.js";

export function mount(element, live) {
  const title = h("h3", {}, "Draft tree");
  const intro = h("p", { class: "hw-intro" });
  const foldButton = h("button", { type: "button", class: "hw-small", hidden: true });
  const picture = h("div", { class: "hw-tree-scroll", tabindex: "0", role: "group", "aria-label": "Draft tree; up and down choose a node" });
  element.replaceChildren(h("section", { class: "hw-card hw-tree" },
    h("div", { class: "hw-card-head" }, title, h("span", { class: "hw-grow" }), foldButton), intro, picture, legend()));
  let folded = null; // null: fold large trees
  let spots = [];
  let tallest = SHORTEST; // grows with the run's trees and never shrinks, so that the page does not jump at every step

  foldButton.addEventListener("click", () => {
    folded = foldButton.dataset.folded !== "true";
    draw();
  });
  picture.addEventListener("click", (event) => {
    const node = event.target.closest("[data-column]");
    if (node) live.pick(Number(node.dataset.column));
    else if (event.target.closest("[data-fold]")) foldButton.click();
  });
  picture.addEventListener("mouseover", (event) => {
    const node = event.target.closest("[data-column]");
    if (node && !live.playing && live.node !== Number(node.dataset.column)) live.pick(Number(node.dataset.column));
  });
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move || !spots.length) return;
    event.preventDefault();
    const at = spots.indexOf(live.node ?? 0);
    live.pick(spots[(at + move + spots.length) % spots.length]);
  });

  function draw() {
    const step = live.step;
    if (!step || !step.tree) {
      picture.style.height = "";
      picture.replaceChildren(...nothing(live));
      setText(title, live.run ? "Draft tree" : "What you will see: a draft tree for every step");
      setText(intro, INTRO);
      foldButton.hidden = true;
      spots = [];
      return;
    }
    const fold = folded ?? step.num_drafted > FOLD_ABOVE;
    const next = live.run.steps[live.cursor + 1];
    const plan = layout(step.tree, { bonus: bonusPiece(step, next), fold });
    spots = plan.nodes.filter((node) => node.column !== null).sort((a, b) => a.y - b.y || a.x - b.x).map((node) => node.column);
    tallest = Math.max(tallest, Math.min(plan.height + 10, TALLEST));
    picture.style.height = `${tallest}px`;
    picture.replaceChildren(drawing(plan, step.tree));
    select(picture, live);
    setText(title, `Draft tree of step ${step.step}`);
    setText(intro, sentence(step));
    foldButton.hidden = step.num_drafted <= FOLD_ABOVE && folded === null;
    foldButton.dataset.folded = String(fold);
    setText(foldButton, fold ? `Show all ${step.num_drafted} nodes` : "Show what matters");
    reveal(picture, plan);
  }

  live.on((changed) => {
    if (changed.has("run")) tallest = SHORTEST;
    if (changed.has("run") || changed.has("cursor")) draw();
    else if (changed.has("steps") && live.cursor === live.last - 1) draw(); // the next step tells the bonus token's text
    else if (changed.has("status") && !live.step) draw();
    if (changed.has("node")) select(picture, live);
  });
}

const SHORTEST = 170;
const TALLEST = 440;
const INTRO = "In each step the drafter guesses a small tree of continuations, and the target model checks all of it in one pass. "
  + "Guesses that match what the target would have said are kept: several tokens for the price of one.";

/** What stands where a tree would: the example before the first run, else a sentence. */
function nothing(live) {
  const say = (sentence) => h("p", { class: "hw-nothing" }, sentence);
  if (live.step) return [say("This step was stored without its tree.")];
  if (live.run) return [say(live.run.over ? "This run has no steps." : "The first step will appear here.")];
  return [exampleTree(), h("p", { class: "hw-example-note" }, "An example. Press Run to watch real ones grow.")];
}

/** A made-up tree for pages on which nothing has run. */
export function exampleTree() {
  const example = drawing(layout(EXAMPLE.tree, { bonus: EXAMPLE.bonus }), EXAMPLE.tree);
  example.classList.add("example");
  example.querySelectorAll("[data-column]").forEach((node) => node.removeAttribute("data-column"));
  return example;
}

/** What one step drafted and what came of it. */
export function sentence(step) {
  if (!step.num_drafted) return "Nothing was drafted in this step: the target gave one token, as in plain decoding.";
  const made = step.tokens.length;
  return `The drafter guessed ${step.num_drafted} token${step.num_drafted === 1 ? "" : "s"}; the target checked all in one pass and accepted `
    + `${step.num_accepted || "none"}. The step gave ${made} token${made === 1 ? "" : "s"}.`;
}

/** What the shapes of a tree mean. */
export function legend() {
  const item = (shape, text) => h("span", {}, s("svg", { width: 18, height: 16, viewBox: "-9 -8 18 16", "aria-hidden": "true" }, shape), text);
  return h("p", { class: "hw-legend hw-tree-legend" },
    item(SHAPES.root(), "last token"), item(SHAPES.accepted(), "accepted"), item(SHAPES.rejected(), "rejected"),
    item(SHAPES.unreached(), "not reached"), item(SHAPES.bonus(), "the target's own token"));
}

const SHAPES = {
  root: () => s("rect", { class: "shape root", x: -5, y: -5, width: 10, height: 10, transform: "rotate(45)" }),
  accepted: () => s("circle", { class: "shape accepted", r: 6.5 }),
  rejected: () => s("g", { class: "shape rejected" }, s("rect", { x: -5.5, y: -5.5, width: 11, height: 11, rx: 1.5 }), s("path", { d: "M-3 -3L3 3M3 -3L-3 3" })),
  unreached: () => s("circle", { class: "shape unreached", r: 3.5 }),
  bonus: () => s("path", { class: "shape bonus", d: "M-6 4.5L0 -6L6 4.5Z" }),
  fold: () => s("path", { class: "shape fold", d: "M-5 0H5M0 -5V5" }),
};

function kindOf(node, tree) {
  if (node.kind !== "node") return node.kind;
  return { [ACCEPTED]: "accepted", [REJECTED]: "rejected" }[tree.verdicts[node.column]] || "unreached";
}

/** The picture of a laid out tree. */
export function drawing(plan, tree) {
  const edges = plan.nodes.filter((node) => node.parent).map((node) => edge(node, kindOf(node, tree)));
  // The accepted path last, so that it lies on top.
  edges.sort((a, b) => Number(a.classList.contains("accepted")) - Number(b.classList.contains("accepted")));
  const spots = plan.nodes.map((node) => spot(node, kindOf(node, tree), tree));
  return s("svg", { width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}` }, s("g", {}, edges), s("g", {}, spots));
}

/** From behind the parent's label, level to where the children of that depth fan out, then to the node. */
function edge(node, kind) {
  const { parent } = node;
  const fan = node.x - GAP + 10;
  const middle = (fan + node.x) / 2 - 4;
  return s("path", { class: `edge ${kind}`, d: `M${parent.end} ${parent.y}H${fan}C${middle} ${parent.y} ${middle} ${node.y} ${node.x - 9} ${node.y}` });
}

function spot(node, kind, tree) {
  const p = node.kind === "node" ? tree.draft_probs[node.column] : null;
  const attributes = { class: `node ${kind}`, transform: `translate(${node.x} ${node.y})` };
  if (node.column !== null) attributes["data-column"] = node.column;
  if (node.kind === "fold") attributes["data-fold"] = "";
  return s("g", attributes,
    s("rect", { class: "hit", x: -9, y: -11, width: node.end - node.x + 12, height: 22, rx: 5 }),
    SHAPES[kind](),
    s("text", { x: 12, y: 4 }, node.label, p === null ? null : s("tspan", { class: "p", dx: 6 }, probability(p)),
      node.more ? s("tspan", { class: "more", dx: 6 }, `+${node.more}`) : null),
    node.more ? s("title", {}, `${node.more} below were not reached`) : null);
}

function select(picture, live) {
  picture.querySelectorAll(".node.picked").forEach((node) => node.classList.remove("picked"));
  if (live.node === null) return;
  const node = picture.querySelector(`[data-column="${live.node}"]`);
  if (node) node.classList.add("picked");
}

/** Scrolls so that the accepted path can be seen. */
export function reveal(picture, plan) {
  const last = plan.nodes.find((node) => node.kind === "bonus") || plan.nodes[0];
  picture.scrollTop = Math.max(0, last.y - picture.clientHeight / 2);
  picture.scrollLeft = Math.max(0, last.end + 12 - picture.clientWidth);
}
