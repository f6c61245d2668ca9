// The best tree for a budget of nodes: a slider, figures, the tree with each node's chance, and the speed of every size.

import { h, setText } from "./dom.js";
import { layout } from "./layout.js";
import { colour, miniChart } from "./mini_chart.js";
import { term } from "./terms.js";
import { decimal } from "./text.js";
import { drawing } from "./views/tree.js";

const RANKS = ["", "1st", "2nd", "3rd"];
const TALLEST = 360;

/** `kept`: {batch, nodes}: what a person chose, kept when other data come; nodes null is the best. 
 * `measure(wanted)` has a tree evaluated, `keep(wanted)` the best tree stored, or that said as text, which is
 * shown in the node `text`; `told(ms)`: a redraw's time. */
export function bestTree(data, kept, { measure, keep, text }, told) {
  if (!data.batches[kept.batch]) kept.batch = "1";
  const timed = data.batches[kept.batch].sizes.some((one) => one.speed !== null);
  const batches = h("div", { class: "hw-evaluation-choice", role: "group", "aria-label": "Sequences at once" });
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Drafted nodes", id: "hw-trees-budget" });
  const count = h("output", { for: "hw-trees-budget" });
  const best = h("button", { type: "button", class: "hw-small" });
  const figures = h("div", { class: "hw-trees-figures" });
  const picture = h("div", { class: "hw-tree-scroll hw-trees-picture", tabindex: "0", role: "group", "aria-label": "The tree" });
  const chart = h("div", { class: "hw-trees-chart" });
  const live = h("a", { class: "hw-primary" }, "Try it live");
  const copy = h("button", { type: "button", class: "hw-small", title: "Medusa's notation" }, "Copy the paths");
  const real = h("button", { type: "button", class: "hw-small", title: "An evaluation of this tree beside plain decoding, in turns" }, "Measure it");
  const store = h("button", { type: "button", class: "hw-small", title: "Stores the best tree of this calibration and cost curve: what an export takes, and what Home counts as tuned" });
  const asText = (form, label) => h("button", { type: "button", class: "hw-small", title: `Keeping the best tree ${form === "yaml" ? "as the file that --config takes" : "as a command line"}`, onclick: () => keep(wanted(form)) }, label);
  const wanted = (form) => ({ form, batch: Number(kept.batch), temperature: data.calibration.temperature });
  const note = h("p", { class: "hw-muted" });
  const found = h("p", { class: "hw-trees-measured", role: "status" });
  const sizes = () => data.batches[kept.batch].sizes;
  const nodes = () => Math.min(kept.nodes === null ? data.batches[kept.batch].best : kept.nodes, sizes().length - 1);

  function draw() {
    const started = performance.now();
    const shown = sizes()[nodes()];
    slider.max = sizes().length - 1;
    slider.value = nodes();
    setText(count, `${nodes()} node${nodes() === 1 ? "" : "s"}`);
    const top = data.batches[kept.batch].best;
    setText(best, `${timed ? "Fastest" : "Longest"}: ${top} node${top === 1 ? "" : "s"}`);
    best.disabled = nodes() === top;
    setText(store, top ? `Keep the ${timed ? "fastest" : "longest"}, ${top} node${top === 1 ? "" : "s"}` : "Keep the answer: no tree");
    figures.replaceChildren(...numbers(data, kept, shown));
    picture.replaceChildren(shown.paths.length ? treePicture(shown) : h("p", { class: "hw-nothing" }, "No nodes: plain decoding, one token a pass."));
    picture.style.height = shown.paths.length ? `${TALLEST}px` : "";
    chart.replaceChildren(sizeChart(sizes(), nodes(), timed));
    live.href = liveAddress(data, shown);
    live.hidden = !shown.paths.length;
    copy.hidden = !shown.paths.length;
    real.hidden = !shown.paths.length;
    found.replaceChildren(...beside(data, kept, shown));
    found.hidden = !found.childNodes.length;
    setText(note, shown.extrapolated ? "This rests on times beyond what was measured (dashed): measure before you rely on it." : "");
    told(performance.now() - started);
  }

  slider.addEventListener("input", () => { kept.nodes = Number(slider.value); draw(); });
  best.addEventListener("click", () => { kept.nodes = null; draw(); });
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(JSON.stringify(sizes()[nodes()].paths));
    setText(copy, "Copied");
    setTimeout(() => setText(copy, "Copy the paths"), 1500);
  });
  store.addEventListener("click", () => {
    store.disabled = true;
    setTimeout(() => { store.disabled = false; }, 3000);
    keep(wanted("start"));
  });
  real.addEventListener("click", () => {
    const about = data.calibration;
    real.disabled = true;
    setTimeout(() => { real.disabled = false; }, 3000);
    measure({ model: about.conditions.target, drafter: about.conditions.drafter.spec, tree: JSON.stringify(sizes()[nodes()].paths),
      batch: Number(kept.batch), temperature: about.temperature });
  });
  batches.replaceChildren(...Object.keys(data.batches).map((batch) => h("button", { type: "button", class: "hw-chip", "aria-pressed": String(batch === kept.batch), onclick: (event) => {
    kept.batch = batch;
    for (const chip of batches.children) chip.setAttribute("aria-pressed", String(chip === event.currentTarget));
    draw();
  } }, batch === "1" ? "1 sequence" : `${batch} at once`)));
  batches.hidden = Object.keys(data.batches).length < 2;
  draw();
  return h("section", { class: "hw-card hw-tree hw-trees-best", "aria-label": "The best tree" },
    h("div", { class: "hw-card-head" }, h("h3", {}, "Best tree for a number of nodes"), h("span", { class: "hw-grow" }), batches),
    h("div", { class: "hw-trees-budget" }, h("label", { class: "hw-label", for: "hw-trees-budget" }, "Drafted nodes"), slider, count, best),
    figures, found, note, h("div", { class: "hw-trees-two" }, picture, chart),
    h("p", { class: "hw-muted" }, "A node shows its rank and the chance that its whole path is right."),
    h("div", { class: "hw-actions" }, live, real, copy, h("span", { class: "hw-grow" }), store, asText("command", "Copy as command"), asText("yaml", "As YAML")),
    text,
    data.notes && data.notes.length ? h("ul", { class: "hw-evaluation-notes" }, data.notes.map((text) => h("li", {}, text))) : null);
}

function numbers(data, kept, shown) {
  const plain = data.batches[kept.batch].plain_tokens_per_s;
  const between = (interval, digits) => (interval ? `${decimal(interval.low, digits)} to ${decimal(interval.high, digits)}` : "");
  const figure = (name, value, under) => h("div", { class: "hw-figure" }, h("span", { class: "hw-label" }, name), h("b", {}, value), h("small", {}, under));
  const found = [figure(term("expected_acceptance_length", "Expected length"), decimal(shown.length), between(shown.length_interval, 2) || "tokens a step")];
  if (shown.speed !== null) {
    found.push(figure(term("expected_tokens_per_s", "Expected tokens/s"), decimal(shown.speed, 1), between(shown.speed_interval, 1)),
      figure(term("speedup", "Over plain decoding"), `${decimal(shown.speed / plain)}×`, `plain: ${decimal(plain, 1)} tokens/s`),
      figure(term("step_ms", "A step takes"), `${decimal(shown.step_ms, 1)} ms`, `${shown.paths.length + 1} rows, ${shown.depth} level${shown.depth === 1 ? "" : "s"}`));
  }
  return found;
}

/** What an evaluation measured of the tree, beside what was predicted. */
function beside(data, kept, shown) {
  const tree = JSON.stringify(shown.paths);
  const one = (data.measured || []).find((row) => row.tree.replaceAll(" ", "") === tree && String(row.batch) === kept.batch && row.temperature === data.calibration.temperature);
  if (!one) return [];
  const plain = data.batches[kept.batch].plain_tokens_per_s;
  const predicted = shown.speed === null ? "" : ` and ${decimal(shown.speed / plain)}×`;
  return [h("b", {}, "Measured: "), `length ${decimal(one.length)}, ${decimal(one.speedup)}× plain decoding on ${one.prompts} prompts; predicted ${decimal(shown.length)}${predicted}. `,
    h("a", { href: `/evaluate?job=${encodeURIComponent(one.job)}` }, "The evaluation")];
}

function treePicture(shown) {
  const column = new Map([["", 0]]);
  shown.paths.forEach((path, at) => column.set(path.join(","), at + 1));
  const tree = {
    parents: [-1, ...shown.paths.map((path) => column.get(path.slice(0, -1).join(",")))],
    pieces: ["last\u00a0token", ...shown.paths.map((path) => rankWords(path.at(-1) + 1))],
    verdicts: [0, ...shown.paths.map(() => 0)],
    draft_probs: [null, ...shown.values],
  };
  const picture = drawing(layout(tree), tree);
  picture.querySelectorAll("[data-column]").forEach((node) => {
    const value = Number(node.dataset.column) ? shown.values[Number(node.dataset.column) - 1] : 1;
    node.style.setProperty("--chance", String(Math.min(1, 0.25 + value)));
  });
  return picture;
}

function rankWords(rank) {
  return RANKS[rank] || `${rank}th`;
}

function sizeChart(sizes, nodes, timed) {
  const value = (one) => (timed ? one.speed : one.length);
  const interval = (one) => (timed ? one.speed_interval : one.length_interval) || {};
  const points = sizes.map((one, at) => ({ x: at, y: value(one), low: interval(one).low, high: interval(one).high, dashed: one.extrapolated }));
  const lines = [{ points, colour: colour(0) }];
  const yTitle = timed ? "tokens/s" : "tokens a step";
  return miniChart({ lines, xTitle: "drafted nodes", yTitle, marker: points[nodes], band: true, label: `${yTitle} by number of nodes` });
}

function liveAddress(data, shown) {
  const about = data.calibration.conditions;
  const query = new URLSearchParams({ target: about.target, drafter: about.drafter.spec, tree: JSON.stringify(shown.paths) });
  return `/live?${query}`;
}
