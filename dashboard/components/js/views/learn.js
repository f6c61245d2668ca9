// The Learn page: what drafting can gain and when it does not. Every figure comes from the server's tested formulas;
// here are only sliders and pictures.

import { h, setText } from "../dom.js";
import { chooser, failures, families, knobs, questions } from "../learn_guide.js";
import { machine, measuredChains, measuredMachines, ownRuns } from "../learn_measured.js";
import { legend, lineChart, ticks } from "../lines.js";
import { term } from "../terms.js";

const WAIT_MS = 40;
const POLL_MS = 400;
const percent = (value) => `${Math.round(100 * value)} %`;
const times = (value) => `${value.toFixed(2)}×`;

export function mount(element, feed) {
  element.replaceChildren(h("div", { class: "hw-learn" },
    h("header", { class: "hw-learn-head" },
      h("h1", {}, "Why guessing ahead makes a model faster"),
      h("p", {}, "To write one token, a model reads all of its weights. Reading is what takes the time, so checking a few guessed tokens in the same pass costs almost nothing. Every guess the model agrees with is a token you did not wait for."),
      h("nav", { class: "hw-learn-nav", "aria-label": "Sections" }, SECTIONS.map(([id, name]) => h("a", { href: `#${id}` }, name)))),
    SECTIONS.map(([id, name, build]) => section(id, name, build, feed))));
  lead(element);
}

/** To the section that the address names. The browser looked for it before the page was there, and what fills above it
 * pushes it down, so it is held in place until the person does something. */
function lead(element) {
  const wanted = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
  if (!wanted) return;
  const grown = new ResizeObserver(() => wanted.scrollIntoView());
  grown.observe(element);
  for (const done of ["wheel", "pointerdown", "keydown", "touchstart"]) window.addEventListener(done, () => grown.disconnect(), { once: true, passive: true });
}

function section(id, name, build, feed) {
  const body = h("div", { class: "hw-learn-body" });
  const trouble = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const told = (text) => { setText(trouble, text || ""); trouble.hidden = !text; };
  build(body, feed, told);
  return h("section", { class: "hw-card hw-learn-part", id }, h("h2", {}, name), trouble, body);
}

/** Asks for a figure whenever a control changes, never twice at once, and draws the latest. */
function figure(feed, name, read, draw, told) {
  let timer = null;
  let busy = false;
  let again = false;
  async function load() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const found = await feed.ask(`/headway/learn/${name}?${new URLSearchParams(read())}`);
      if (!found.problem) await draw(found);
      told(found.problem);
    } catch (error) {
      told(error.message);
    }
    busy = false;
    if (again) { again = false; load(); }
  }
  load();
  return () => { clearTimeout(timer); timer = setTimeout(load, WAIT_MS); };
}

function slider({ label, hint, min, max, step, value, show, changed }) {
  const shown = h("output", {}, show(value));
  const input = h("input", { type: "range", min, max, step, value, "aria-label": label });
  input.addEventListener("input", () => { setText(shown, show(Number(input.value))); changed(); });
  const set = (next) => { input.value = next; setText(shown, show(Number(input.value))); };
  return { node: h("label", { class: "hw-slider", title: hint }, h("span", {}, label), shown, input), get value() { return input.value; }, set value(next) { set(next); } };
}

function choice({ label, options, changed }) {
  const input = h("select", { "aria-label": label }, options.map(([value, text]) => h("option", { value }, text)));
  input.addEventListener("change", changed);
  return {
    node: h("label", { class: "hw-slider hw-choice" }, h("span", {}, label), input),
    get value() { return input.value; },
    set value(next) { input.value = next; },
    add: (value, text) => input.append(h("option", { value }, text)),
  };
}

// -- what a chain gains --------------------------------------------------------------------------------------------

function gain(body, feed, told) {
  let changed = () => {};
  const touch = () => changed();
  const rates = [0.75, 0.65, 0.6, 0.55, 0.5, 0.45].map((value, depth) => slider({
    label: `accepted at depth ${depth + 1}`, hint: "when the guesses before it were accepted", min: 0, max: 1, step: 0.01, value, show: percent, changed: touch }));
  const draft = slider({ label: "drafting one token", hint: "in units of a plain step", min: 0, max: 0.6, step: 0.01, value: 0.06, show: percent, changed: touch });
  const row = slider({ label: "checking one more token", hint: "what a further row adds to the pass", min: 0, max: 0.6, step: 0.01, value: 0.03, show: percent, changed: touch });
  const overhead = slider({ label: "everything else", hint: "choosing, moving the cache, Python", min: 0, max: 0.4, step: 0.01, value: 0.04, show: percent, changed: touch });
  const verdict = h("p", { class: "hw-learn-verdict" });
  const picture = h("div", {});
  const lines = h("div", {});
  let own = null;
  let name = "";
  const take = h("button", { type: "button", class: "hw-chip", hidden: true, onclick: () => { setSliders(own, { rates, draft, row, overhead }); touch(); } }, "set the sliders to it");
  const measured = measuredChains(feed, (chain, label) => { own = chain; name = label; take.hidden = !chain; touch(); }, told);
  body.append(h("p", {}, "A step drafts a chain of tokens and checks them in one pass. The acceptance length, what a step writes on average, grows with every depth, but less each time; the cost grows evenly. Somewhere it turns."),
    h("p", { class: "hw-formula" }, term("speedup", "speedup"), " = ", term("acceptance_length", "acceptance length"), " ÷ (", term("verify_cost", "checking"), " + ", term("draft_cost", "drafting"), " + ", term("overhead_cost", "everything else"), ")"),
    h("div", { class: "hw-learn-split" },
      h("div", { class: "hw-sliders" }, rates.map((one) => one.node), h("h4", {}, "Cost, as a share of a plain step"), draft.node, row.node, overhead.node, h("h4", {}, "Measured"), measured, take),
      h("div", {}, verdict, picture, lines)));
  changed = figure(feed, "gain", () => ({ rates: rates.map((one) => one.value).join(","), draft: draft.value, per_row: row.value, overhead: overhead.value }), (found) => {
    const points = found.points;
    const best = points[found.best];
    setText(verdict, found.best === 0
      ? "Drafting does not pay here: no depth is faster than plain decoding."
      : `${found.best} drafted ${found.best === 1 ? "token is" : "tokens are"} best: ${best.acceptance_length.toFixed(2)} tokens a step, ${times(best.speedup)} as fast as plain decoding.`);
    const mine = (own || []).slice(0, points.length);
    const timed = mine.filter((one) => one.speedup !== undefined);
    const top = Math.max(2, ...[...points, ...mine].map((one) => Math.max(one.acceptance_length, one.speedup || 0))) * 1.05;
    lines.replaceChildren(legend([["main", "speedup"], ["second", "acceptance length"], ["limit", "plain decoding"],
      ...(timed.length ? [["third", `speedup measured: ${name}`]] : []), ...(mine.length ? [["fourth", `acceptance length measured: ${name}`]] : [])], h));
    picture.replaceChildren(lineChart({
      label: verdict.textContent,
      curves: [
        { kind: "limit", name: "plain decoding", points: [[0, 1], [points.length - 1, 1]] },
        { kind: "second", name: "acceptance length", dots: true, points: points.map((one) => [one.depth, one.acceptance_length]) },
        { kind: "main", name: "speedup", dots: true, points: points.map((one) => [one.depth, one.speedup]) },
        ...(mine.length ? [{ kind: "fourth", name: "acceptance length as measured", dots: true, points: mine.map((one) => [one.depth, one.acceptance_length]) }] : []),
        ...(timed.length ? [{ kind: "third", name: "speedup as measured", dots: true, points: timed.map((one) => [one.depth, one.speedup]) }] : []),
      ],
      marks: [{ x: best.depth, y: best.speedup, text: times(best.speedup) }],
      x: { label: "drafted tokens", from: 0, to: points.length - 1, ticks: points.map((one) => one.depth), text: String },
      y: { label: "times plain decoding, tokens a step", from: 0, to: top, ticks: ticks(0, top), text: (value) => value.toFixed(1) },
    }));
  }, told);
}

/** The sliders as a measured chain has it; costs grow evenly on sliders, so the deepest chain sets them. */
function setSliders(chain, { rates, draft, row, overhead }) {
  rates.forEach((slide, depth) => {
    const [before, here] = [chain[depth], chain[depth + 1]];
    if (here) slide.value = before.reached ? here.reached / before.reached : 0;
  });
  const last = chain[chain.length - 1];
  if (last.speedup === undefined || !last.depth) return;
  draft.value = last.draft / last.depth;
  row.value = Math.max(0, (last.verify - chain[0].verify) / last.depth);
  overhead.value = Math.max(0, last.overhead - chain[0].overhead);
}

// -- worked examples -----------------------------------------------------------------------------------------------

function examples(body, feed, told) {
  const chain = h("input", { type: "text", value: "0.6, 0.4, 0.3", "aria-label": "chances of the chain" });
  const widths = h("input", { type: "text", value: "3, 2, 1", "aria-label": "candidates at each depth" });
  const within = h("input", { type: "text", value: "0.8, 0.55, 0.3", "aria-label": "chance that the right token is among them" });
  const first = h("p", { class: "hw-worked" });
  const second = h("p", { class: "hw-worked" });
  body.append(h("div", { class: "hw-learn-two" },
    h("div", {}, h("h3", {}, "A chain"), h("p", {}, "Three guesses in a row. The second counts only if the first was right."),
      h("label", { class: "hw-typed" }, "chance at depth 1, 2, 3", chain), first),
    h("div", {}, h("h3", {}, "A tree"), h("p", {}, "Three candidates for the first place, two behind each, one behind each of those: more chances, more to check."),
      h("label", { class: "hw-typed" }, "candidates at depth 1, 2, 3", widths), h("label", { class: "hw-typed" }, "chance that one of them is right", within), second)));
  const changed = figure(feed, "examples", () => ({ chain: chain.value, widths: widths.value, within: within.value }), (found) => {
    setText(first, `${sum(found.asked.chain)} = ${found.chain.toFixed(2)} tokens a step`);
    setText(second, `${sum(found.asked.within)} = ${found.product.toFixed(2)} tokens a step, with ${found.nodes} drafted tokens`);
  }, told);
  for (const input of [chain, widths, within]) input.addEventListener("input", changed);
}

/** "1 + 0.6 + 0.6·0.4 + 0.6·0.4·0.3" */
function sum(rates) {
  return ["1", ...rates.map((_, depth) => rates.slice(0, depth + 1).map((rate) => String(Number(rate.toFixed(3)))).join("·"))].join(" + ");
}

// -- a tree in a pass ----------------------------------------------------------------------------------------------

const TREES = [["chain-3", "a chain"], ["3x2x1", "3x2x1"], ["[[0], [1], [0, 0], [0, 1]]", "Medusa's example"], ["[[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]", "a sparse one"]];

function treeLayout(body, feed, told) {
  const text = h("input", { type: "text", value: TREES[2][0], "aria-label": "a tree", spellcheck: "false" });
  const picture = h("div", { class: "hw-layout" });
  const sentence = h("p", { class: "hw-learn-verdict", role: "status" });
  let chosen = 0;
  body.append(h("p", {}, "All drafted tokens stand side by side in one pass. A mask says who sees whom: every node sees itself and the nodes above it, and never a sibling. Its position is the committed length plus its depth. Click a node to see what it sees."),
    h("label", { class: "hw-typed" }, "chain-4, 3x2x1 or paths of ranks in Medusa's notation", text),
    h("div", { class: "hw-chips" }, TREES.map(([value, name]) => h("button", { type: "button", class: "hw-chip", onclick: () => { text.value = value; chosen = 0; changed(); } }, name))),
    sentence, picture);
  const changed = figure(feed, "tree", () => ({ text: text.value }), (found) => {
    chosen = Math.min(chosen, found.mask.length - 1);
    const choose = (node) => { chosen = node; draw(); picture.querySelector(`[data-node="${node}"]`).focus(); };
    const draw = () => {
      const above = found.mask[chosen].map((seen, node) => (seen ? node : -1)).filter((node) => node >= 0 && node !== chosen);
      setText(sentence, chosen === 0 ? `${found.mask.length - 1} drafted tokens, ${found.mask.length} rows in the pass. The root is the last token that was written; it sees the text so far and itself.`
        : `Node ${chosen} is rank ${found.paths[chosen - 1].join(", then ")}. It sees the text so far, ${above.length === 1 ? "node" : "nodes"} ${above.join(", ")} and itself, at position +${found.positions[chosen]}.`);
      picture.replaceChildren(drawLevels(found, chosen, choose), drawMask(found, chosen, choose), drawLists(found));
    };
    draw();
  }, told);
  text.addEventListener("input", changed);
}

/** The nodes level by level, as buttons. */
function drawLevels(found, chosen, choose) {
  const deepest = Math.max(...found.positions);
  const name = (node) => (node ? `[${found.paths[node - 1].join(",")}]` : "root");
  return h("div", { class: "hw-layout-levels" }, Array.from({ length: deepest + 1 }, (_, depth) => h("div", {},
    h("span", { class: "hw-muted" }, depth ? `+${depth}` : "+0"), found.positions.map((at, node) => (at === depth
      ? h("button", { type: "button", class: "hw-layout-node", "data-node": node, "data-seen": found.mask[chosen][node] ? "yes" : null, "aria-pressed": String(node === chosen), onclick: () => choose(node) }, `${node} `, h("small", {}, name(node)))
      : null)).filter(Boolean))));
}

/** The mask as a square: a filled field where the row's node sees the column's. */
function drawMask(found, chosen, choose) {
  return h("div", { class: "hw-learn-scroll" }, h("table", { class: "hw-layout-mask", "aria-label": "Who sees whom" },
    h("thead", {}, h("tr", {}, h("th", {}), found.mask.map((_, node) => h("th", { scope: "col" }, String(node))))),
    h("tbody", {}, found.mask.map((line, node) => h("tr", { "aria-current": node === chosen ? "true" : null, onclick: () => choose(node) }, h("th", { scope: "row" }, String(node)),
      line.map((seen) => h("td", { class: seen ? "seen" : null }, seen ? "■" : "·")))))));
}

function drawLists(found) {
  const rows = [["positions", found.positions.join("  ")], ["place among the candidates", found.candidates.map((one) => one ?? "–").join("  ")],
    ["rows of leaves", found.leaf_rows.map((row) => `(${row.join(", ")})`).join("  ")], ["Medusa's choices", found.choices]];
  return h("dl", { class: "hw-layout-lists" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// -- the hardware --------------------------------------------------------------------------------------------------

const SIZES = [["0.5 billion", 0.5, 24, 14, 2, 64], ["3 billion", 3.1, 36, 16, 2, 128], ["8 billion", 8, 32, 32, 8, 128], ["32 billion", 32, 64, 40, 8, 128], ["70 billion", 70, 80, 64, 8, 128]];
const DEVICES = ["NVIDIA H100 SXM", "NVIDIA H200", "NVIDIA A100 80 GB", "NVIDIA L40S", "NVIDIA RTX 4090", "NVIDIA L4", "NVIDIA T4", "AMD MI300X"];
const POWERS = [1, 4, 16, 64, 256];

function hardware(body, feed, told) {
  let changed = () => {};
  const touch = () => changed();
  const device = choice({ label: "device", options: DEVICES.map((name) => [name, name]), changed: () => seeing() });
  const size = choice({ label: "model", options: SIZES.map(([name], place) => [place, name]).sort((a, b) => (b[0] === 2) - (a[0] === 2)), changed: touch });
  const bits = choice({ label: "weights", options: [[2, "16 bits"], [1, "8 bits"], [0.5, "4 bits"], [4, "32 bits"]], changed: touch });
  const source = h("p", { class: "hw-muted" });
  let seen = null;
  measuredMachines(feed, device.add);
  async function seeing() {
    const wanted = device.value;
    try {
      const found = wanted.startsWith("cost:") ? await machine(feed, wanted) : null;
      if (device.value !== wanted) return;
      const first = found && !size.measured;
      seen = found;
      if (first) { size.measured = true; size.add("measured", "the model it was measured with"); }
      if (found) { size.value = "measured"; bits.value = String(found.sizes.bytes_per_weight); } else if (size.value === "measured") size.value = "2";
      touch();
    } catch (error) {
      told(error.message);
    }
  }
  const context = slider({ label: "tokens of context", min: 0, max: 32768, step: 512, value: 2048, show: (v) => v.toLocaleString("en"), changed: touch });
  const nodes = slider({ label: "drafted tokens a step", min: 1, max: 64, step: 1, value: 16, show: String, changed: touch });
  const length = slider({ label: "acceptance length", min: 1, max: 6, step: 0.05, value: 2.5, show: (v) => v.toFixed(2), changed: touch });
  const draft = slider({ label: "drafting, share of a step", min: 0, max: 1, step: 0.01, value: 0.15, show: percent, changed: touch });
  const verdict = h("p", { class: "hw-learn-verdict" });
  const facts = h("p", { class: "hw-muted" });
  const picture = h("div", {});
  body.append(h("p", {}, "A pass takes as long as the slower of two things: reading weights and cache from memory, or multiplying. A few sequences at a time leave the arithmetic idle, and drafted tokens ride along for free. Many sequences fill it, and then every drafted token costs."),
    h("div", { class: "hw-learn-split" },
      h("div", { class: "hw-sliders" }, device.node, size.node, bits.node, context.node, nodes.node, length.node, draft.node),
      h("div", {}, verdict, facts, picture, legend([["main", "speedup with drafting"], ["limit", "plain decoding"]], h),
        source)));
  changed = figure(feed, "roofline", () => {
    const [, billions, layers, heads, kvHeads, width] = SIZES[size.value === "measured" ? 2 : size.value];
    const own = seen ? { bandwidth: seen.bandwidth, operations: seen.operations } : {};
    const { parameters, cache_values, attention_width } = seen && size.value === "measured" ? seen.sizes : {};
    if (parameters) Object.assign(own, { parameters, cache_values, attention_width });
    return { ...own, device: seen ? seen.name : device.value, billions, layers, heads, kv_heads: kvHeads, head_width: width, bytes_per_weight: bits.value, context: context.value, nodes: nodes.value, length: length.value, draft: draft.value };
  }, (found) => {
    setText(source, seen ? `As this cost curve saw it: ${(seen.bandwidth / 1e9).toPrecision(3)} GB read and ${(seen.operations / 1e9).toPrecision(3)} billion operations a second at most. Better kernels would show more.`
      : "The best case of the makers' data sheets. Real kernels are slower; measure a cost curve on the Trees page and your own machine is in the list of devices.");
    setText(verdict, found.paying_batch >= 4096 ? "Drafting pays at every batch size up to 4,096."
      : found.paying_batch ? `Drafting pays up to ${found.paying_batch} sequences at once.` : "Drafting does not pay here, not even for a single sequence.");
    setText(facts, `Alone, a plain step takes at least ${found.plain_ms < 10 ? found.plain_ms.toFixed(2) : found.plain_ms.toFixed(0)} ms: ${found.reading_ms.toFixed(2)} ms of reading, ${found.computing_ms.toFixed(3)} ms of multiplying. ${found.free.toLocaleString("en")} drafted tokens would ride for free.`);
    const top = Math.max(2, ...found.curve.map((one) => one.speedup)) * 1.08;
    picture.replaceChildren(lineChart({
      label: verdict.textContent,
      curves: [{ kind: "limit", name: "plain decoding", points: [[1, 1], [512, 1]] }, { kind: "main", name: "speedup", dots: true, points: found.curve.map((one) => [one.batch, one.speedup]) }],
      x: { label: "sequences at once", from: 1, to: 512, log: true, ticks: POWERS, text: String },
      y: { label: "times plain decoding", from: 0, to: top, ticks: ticks(0, top), text: (value) => value.toFixed(1) },
    }));
  }, told);
}

// -- typical acceptance --------------------------------------------------------------------------------------------

function typical(body, feed, told) {
  let changed = () => {};
  const touch = () => changed();
  const epsilon = slider({ label: "epsilon", hint: "a probability that always passes", min: 0, max: 0.5, step: 0.01, value: 0.09, show: (v) => v.toFixed(2), changed: touch });
  const delta = slider({ label: "delta", hint: "lowers the bar where the model is unsure", min: 0, max: 1, step: 0.01, value: 0.3, show: (v) => v.toFixed(2), changed: touch });
  const picture = h("div", {});
  const verdict = h("p", { class: "hw-learn-verdict" });
  const shares = h("p", { class: "hw-muted", role: "status" });
  const lines = h("div", {});
  let run = "";
  const picker = ownRuns(feed, (id) => { run = id; touch(); });
  body.append(h("p", {}, "Two rules keep the model's own law exactly: take what it would have taken, or accept in proportion to its probability. The typical rule does not: it accepts whatever is likely enough, and asks less where the model itself is unsure. It is faster at high temperature, and the text is no longer a sample of the model."),
    h("div", { class: "hw-learn-split" }, h("div", { class: "hw-sliders" }, epsilon.node, delta.node, picker),
      h("div", {}, verdict, shares, picture, lines)));
  const draw = (found, points) => {
    const highest = Math.max(...found.curve.map(([, y]) => y));
    setText(verdict, `Where the model is sure, a token needs ${percent(highest)}; at an entropy of 3 nats (about 20 equally likely tokens) ${(100 * at(found.curve, 3)).toFixed(1)} %.`);
    const top = points.length ? 1 : Math.max(0.05, highest * 1.25);
    lines.replaceChildren(legend([["main", "a token above this line is accepted"]], h));
    picture.replaceChildren(lineChart({
      label: verdict.textContent, curves: [{ kind: "main", name: "threshold", points: found.curve }], points,
      x: { label: "how unsure the model is: entropy in nats", from: 0, to: 8, ticks: [0, 2, 4, 6, 8], text: String },
      y: { label: "probability needed", from: 0, to: top, ticks: ticks(0, top), text: (value) => `${Number((100 * value).toFixed(1))} %` },
    }));
  };
  changed = figure(feed, "typical", () => ({ epsilon: epsilon.value, delta: delta.value }), async (found) => {
    const wanted = run;
    const own = wanted ? await feed.ask(`/headway/learn/runs/${wanted}?${new URLSearchParams({ epsilon: found.asked.epsilon, delta: found.asked.delta })}`) : null;
    setText(shares, own ? `Of the ${own.of.toLocaleString("en")} drafted tokens that this run looked at, ${percent(own.inside)} lie above the line; the run's own rule accepted ${percent(own.accepted)}.` : "");
    draw(found, own ? own.points.map(([x, y, inside]) => ({ x, y, inside })) : []);
  }, told);
}

function at(curve, x) {
  return (curve.find(([place]) => place >= x) || curve[curve.length - 1])[1];
}

// -- the toy world -------------------------------------------------------------------------------------------------

const NAMES = { independent: "independent heads", sequential: "one head, applied to its own drafts", "exact-marginals": "the best any independent heads could do", "exact-target": "the target itself" };
const LEARNED = { base: "the base model's text", target: "the target's own text" };

function toy(body, feed, told) {
  const button = h("button", { type: "button", class: "hw-primary" }, "Run the toy world");
  const note = h("p", { class: "hw-muted" }, "64 tokens, 200,000 of them to learn from, 30,000 steps of exact speculative sampling for each drafter: some ten seconds on two cores.");
  const found = h("div", { hidden: true });
  let seed = 0;
  button.addEventListener("click", async () => {
    button.disabled = true;
    setText(button, "Running …");
    told("");
    try {
      const { task } = await feed.ask("/headway/learn/toy", { seed });
      let state = { state: "running" };
      while (state.state === "running") {
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        state = await feed.ask(`/headway/learn/toy/${task}`);
      }
      if (state.state !== "done") throw new Error(state.error || "It was stopped.");
      drawToy(found, state.result);
      seed += 1;
      setText(button, "Run it with another seed");
    } catch (error) {
      told(error.message);
      setText(button, "Run the toy world");
    }
    button.disabled = false;
  });
  body.append(h("p", {}, "A world small enough that everything can be computed: each token is drawn by the one before. A base model was fine-tuned, and half of its habits changed. Two kinds of drafter of the same size are compared, each trained once on the base model's text and once on the fine-tuned model's own."),
    h("div", { class: "hw-actions" }, button), note, found);
}

function drawToy(place, result) {
  place.hidden = false;
  const by = (drafter, data) => result.rows.find((row) => row.drafter === drafter && row.data === data);
  const full = 1 + result.rows[0].acceptance_per_depth.length;
  const ceiling = by("exact-marginals", null);
  const own = by("sequential", "target");
  const other = by("sequential", "base");
  place.replaceChildren(
    h("ol", { class: "hw-lessons" },
      h("li", {}, h("b", {}, "Independent heads meet a ceiling at depth 2. "), `They guess the second token without knowing the first. Even with exact laws that is right ${percent(ceiling.acceptance_per_depth[1])} of the time; a head that sees its own draft reaches ${percent(own.acceptance_per_depth[1])}.`),
      h("li", {}, h("b", {}, "Learn from the model you serve. "), `On the base model's text the same head makes ${other.tokens_per_step.toFixed(2)} tokens a step, on the target's own text ${own.tokens_per_step.toFixed(2)}.`)),
    h("div", { class: "hw-learn-scroll" }, h("table", { class: "hw-toy" },
      h("thead", {}, h("tr", {}, h("th", {}, "Drafter"), h("th", {}, "Learned from"), ceiling.acceptance_per_depth.map((_, depth) => h("th", { class: "number" }, term("acceptance_conditional", `depth ${depth + 1}`))), h("th", {}, term("acceptance_length", "Tokens a step")))),
      h("tbody", {}, result.rows.map((row) => h("tr", {}, h("td", {}, NAMES[row.drafter]), h("td", {}, LEARNED[row.data] || "exact law"),
        row.acceptance_per_depth.map((rate) => h("td", { class: "number" }, percent(rate))),
        h("td", {}, h("span", { class: "hw-toy-bar" }, h("i", { style: `width: ${((100 * row.tokens_per_step) / full).toFixed(1)}%` })), h("b", {}, row.tokens_per_step.toFixed(2)))))))),
    h("p", { class: "hw-muted" }, `Seed ${result.seed}. The same numbers on the command line: `, h("code", {}, `python app.py toy --seed ${result.seed}`)));
}

const SECTIONS = [
  ["gain", "What a chain of guesses gains", gain],
  ["examples", "Two worked examples", examples],
  ["tree", "A tree in one pass", treeLayout],
  ["hardware", "When guesses ride for free", hardware],
  ["lessons", "Two lessons in a toy world", toy],
  ["typical", "Exact rules and the typical one", typical],
  ["choose", "Which drafter is for me", (body, feed, told) => chooser(body, feed, told, { figure, slider, choice })],
  ["families", "The families side by side", families],
  ["knobs", "Every knob", knobs],
  ["questions", "Questions people ask", questions],
  ["failures", "How it goes wrong", failures],
];
