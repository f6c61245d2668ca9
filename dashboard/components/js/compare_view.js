// A comparison as the page and its report show it: the sentence, what differs, figures with intervals, charts, parts. Pure:
// data in, nodes out. What is chosen (reference, part, prompt) belongs to the caller; a report has no caller to ask.

import { changeBar, depthChart, histogram, percent, scatter, short, sign } from "./compare_charts.js";
import { h } from "./dom.js";
import { term } from "./terms.js";

const LENGTH = 3; // place of a figure in a point of the view
const SPEED = 4;
const MOST_APART = 8; // prompts listed under the scatter

/** The sections of `view`; `ask` may hold open(asked) for a prompt and reference(side). */
export function drawComparison(view, ask = {}) {
  const sections = [verdict(view, ask), settings(view)];
  if (view.figures.length) sections.push(figures(view), charts(view), prompts(view, ask));
  if (view.splits.length) sections.push(parts(view));
  return sections;
}

function card(title, ...children) {
  return h("section", { class: "hw-card hw-cmp-card" }, title ? h("h3", {}, title) : null, ...children);
}

function verdict(view, ask) {
  const sides = view.sides.map((side, at) => {
    const own = at === view.reference ? h("span", { class: "hw-cmp-ref" }, "reference")
      : ask.reference ? h("button", { type: "button", class: "hw-small", onclick: () => ask.reference(at) }, "Make reference") : null;
    const name = ask.open ? h("a", { href: side.link }, side.title) : h("span", {}, side.title);
    return h("li", {}, sign(at), h("b", {}, side.letter), name, h("span", { class: "hw-muted" }, `${side.prompts} prompts`), own, ask.remove && view.sides.length > 2 ? h("button", { type: "button", class: "hw-small", "aria-label": `Remove ${side.letter}`, onclick: () => ask.remove(at) }, "Remove") : null);
  });
  return card(null, h("p", { class: "hw-cmp-sentence" }, view.sentence), h("ul", { class: "hw-cmp-sides" }, sides),
    view.notes.length ? h("ul", { class: "hw-evaluation-notes" }, view.notes.map((note) => h("li", {}, note))) : null);
}

function settings(view) {
  const heads = h("tr", {}, h("th", {}, ""), view.sides.map((side, at) => h("th", { scope: "col" }, sign(at), " ", side.letter)));
  const lines = view.differing.map((one) => h("tr", {}, h("th", { scope: "row" }, one.name), one.values.map((value) => h("td", {}, words(value)))));
  return card("What differs",
    lines.length ? h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-table hw-compared" }, h("thead", {}, heads), h("tbody", {}, lines))) : h("p", { class: "hw-nothing" }, "All settings are equal."),
    h("details", { class: "hw-equal" }, h("summary", {}, `${view.equal.length} equal settings`), h("dl", {}, view.equal.map((one) => [h("dt", {}, one.name), h("dd", {}, words(one.value))]))));
}

function figures(view) {
  const heads = h("tr", {}, h("th", {}, ""), view.sides.map((side, at) => h("th", { scope: "col" }, sign(at), " ", side.letter)));
  const lines = view.figures.map((line) => h("tr", {}, h("th", { scope: "row", title: line.why }, term(line.metric, line.label)), line.sides.map((one) => h("td", { class: "figure" }, cell(line, one)))));
  const same = h("tr", {}, h("th", { scope: "row", title: `Answers equal to ${view.sides[view.reference].letter}'s token for token` }, "Same text"),
    view.same_text.map((count, side) => h("td", { class: "figure" }, side === view.reference ? "–" : `${count} of ${view.answers}`)));
  return card("Figures",
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-table hw-compared hw-cmp-figures" }, h("thead", {}, heads), h("tbody", {}, lines, same))),
    h("p", { class: "hw-muted" }, `Sums over ${view.common} common prompts, divided last. Intervals: 95 %, prompts resampled whole and paired. Second line: change from ${view.sides[view.reference].letter}; `,
      "▲ and ▼ stand where 0 lies outside its interval, ≈ where chance can't be ruled out. ", term("p_value", "p"), ": Wilcoxon's signed-rank test of the prompts' own figures. r: rank-biserial effect size, −1 to 1. d: mean difference in its standard deviations."));
}

function cell(line, one) {
  const digits = line.digits;
  const found = [h("b", {}, one.value === null ? "–" : `${one.value.toFixed(digits)}${line.unit}`)];
  if (one.interval) found.push(h("small", {}, ` ${one.interval.map((end) => end.toFixed(digits)).join(" to ")}`));
  const { against } = one;
  if (!against) return found;
  // A drift of 0 has no relative change, and a share is compared in points.
  const relative = against.change !== null && line.name !== "right" && line.name !== "drift";
  const value = relative ? against.change : against.difference;
  const interval = relative ? against.change_interval : against.difference_interval;
  if (value === null) return found;
  const said = relative ? signed : (number) => `${number > 0 ? "+" : number < 0 ? "−" : "±"}${Math.abs(number).toFixed(digits)}`;
  const way = against.beyond_chance ? (against.difference > 0 ? "▲" : "▼") : "≈";
  found.push(h("div", { class: "hw-cmp-against", "data-way": way }, `${way} ${said(value)}`, interval ? h("small", {}, ` ${said(interval[0])} to ${said(interval[1])}`) : null));
  const { test } = against;
  if (one.mcnemar) found.push(h("small", { class: "hw-cmp-test" }, `${p(one.mcnemar.p)} (McNemar); right only here ${one.mcnemar.only_second}, only there ${one.mcnemar.only_first}`));
  else if (test) {
    const sizes = [test.effect === null ? null : `r ${test.effect.toFixed(2)}`, test.standardised === null ? null : `d ${test.standardised.toFixed(2)}`].filter(Boolean);
    found.push(h("small", { class: "hw-cmp-test" }, [p(test.p), ...sizes].join(", "), `; higher on ${test.higher} prompts, lower on ${test.lower}, equal on ${test.equal}`));
  }
  return found;
}

function charts(view) {
  return h("div", { class: "hw-cmp-pair" },
    view.depths.length ? card("Acceptance by depth", depthChart(view), h("p", { class: "hw-muted" }, "Filled: ", term("acceptance_marginal", "of all steps"), ", with ", term("interval", "95 % intervals"), ". Hollow: ", term("acceptance_conditional", "of the steps that drafted a guess at that depth"), ".")) : null,
    view.histograms.some((one) => one.length) ? card("Accepted a step", histogram(view), h("p", { class: "hw-muted" }, "How many drafted tokens a step accepted; the target's own token comes on top.")) : null);
}

function prompts(view, ask) {
  let figure = LENGTH;
  const shown = new Set(view.sides.map((_, side) => side).filter((side) => side !== view.reference));
  const place = h("div", {});
  const list = h("div", {});
  const bar = h("div", { class: "hw-cmp-bar-row" });
  const values = (point) => point[figure];
  const title = () => (figure === LENGTH ? "Acceptance length" : "Tokens/s");
  function draw() {
    const pick = (at, text) => h("button", { type: "button", class: "hw-chip", "aria-pressed": String(figure === at), onclick: () => { figure = at; draw(); } }, text);
    const sides = [...view.sides.keys()].filter((side) => side !== view.reference).map((side) => h("button", {
      type: "button", class: "hw-chip", "aria-pressed": String(shown.has(side)), onclick: () => { if (!shown.delete(side)) shown.add(side); draw(); },
    }, sign(side), ` ${view.sides[side].letter}`));
    bar.replaceChildren(pick(LENGTH, "Acceptance length"), pick(SPEED, "Tokens/s"), h("span", { class: "hw-grow" }), ...(sides.length > 1 ? sides : []));
    place.replaceChildren(scatter(view, { values, title: title(), shown, picked: ask.picked, open: ask.open }));
    list.replaceChildren(apart(view, values, shown, ask));
  }
  draw();
  const text = ask.open ? "Every mark is a prompt; above the line it is higher than the reference. Click one to see what each run wrote." : "Every mark is a prompt; above the line it is higher than the reference.";
  return card("Prompt by prompt", bar, h("div", { class: "hw-cmp-pair" }, place, list), h("p", { class: "hw-muted" }, text), ask.panel || null);
}

/** The prompts on which the sides differ most from the reference. */
function apart(view, values, shown, ask) {
  const far = [];
  for (const point of view.points) {
    const own = values(point);
    const base = own[view.reference];
    own.forEach((value, side) => {
      if (side !== view.reference && shown.has(side) && value !== null && base !== null && value !== base) far.push({ point, side, base, value, away: Math.abs(value - base) });
    });
  }
  far.sort((a, b) => b.away - a.away);
  if (!far.length) return h("p", { class: "hw-nothing" }, "No prompt differs.");
  const line = ({ point, side, base, value }) => {
    const name = ask.open ? h("button", { type: "button", class: "hw-sort", onclick: () => ask.open(point[0]) }, point[1]) : point[1];
    return h("tr", {}, h("td", { class: "prompt" }, name, point[2] === "none" ? null : h("small", {}, ` ${point[2]}`)), h("td", { class: "number" }, short(base)), h("td", { class: "number" }, sign(side), " ", short(value)));
  };
  return h("table", { class: "hw-table hw-cmp-apart" }, h("thead", {}, h("tr", {}, h("th", {}, "Furthest apart"), h("th", { class: "number" }, view.sides[view.reference].letter), h("th", { class: "number" }, "other"))),
    h("tbody", {}, far.slice(0, MOST_APART).map(line)));
}

const PARTS = { domain: "Domain", temperature: "Temperature", class: "Kind of token" };

function parts(view) {
  const labels = new Map(view.splits.flatMap((split) => split.figures).map((line) => [line.name, line.label]));
  const names = [...labels.keys()];
  let figure = names[0];
  const bar = h("div", { class: "hw-cmp-bar-row" });
  const place = h("div", { class: "hw-table-scroll" });
  function draw() {
    bar.replaceChildren(...names.map((name) => h("button", { type: "button", class: "hw-chip", "aria-pressed": String(name === figure), onclick: () => { figure = name; draw(); } }, labels.get(name))));
    place.replaceChildren(partsTable(view, figure));
  }
  draw();
  return card("By part", bar, place, h("p", { class: "hw-muted" }, `Change from ${view.sides[view.reference].letter} with its 95 % interval; the line is no change. A part with few prompts has none. Many parts are looked at here: one in twenty falls outside by chance alone.`));
}

function partsTable(view, figure) {
  const lines = view.splits.map((split) => ({ split, line: split.figures.find((one) => one.name === figure) })).filter((one) => one.line);
  const ends = lines.flatMap(({ line }) => line.sides.flatMap((one) => (one.against && one.against.change_interval) || []));
  const range = [Math.min(-0.01, ...ends), Math.max(0.01, ...ends)];
  const others = [...view.sides.keys()].filter((side) => side !== view.reference);
  const heads = [h("th", {}, ""), h("th", { class: "number" }, "Prompts"), h("th", { class: "number" }, sign(view.reference), ` ${view.sides[view.reference].letter}`), others.map((side) => h("th", {}, sign(side), ` ${view.sides[side].letter}`))];
  let by = null;
  const rows = [];
  for (const { split, line } of lines) {
    if (split.by !== by) {
      by = split.by;
      rows.push(h("tr", { class: "section" }, h("th", { colspan: others.length + 3 }, PARTS[by])));
    }
    const base = line.sides[view.reference].value;
    rows.push(h("tr", {}, h("th", { scope: "row" }, split.value), h("td", { class: "number" }, String(split.prompts)), h("td", { class: "number" }, base === null ? "–" : base.toFixed(line.digits)), others.map((side) => {
      const { against, value } = line.sides[side];
      if (value === null || against === null || against.change === null) return h("td", {}, value === null ? "–" : value.toFixed(line.digits));
      return h("td", { class: "figure" }, changeBar(against.change_interval, against.change, range, side), ` ${value.toFixed(line.digits)} `, h("small", {}, signed(against.change)));
    })));
  }
  return h("table", { class: "hw-table hw-compared hw-cmp-parts" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
}

/** What each side wrote to one prompt: accepted drafted tokens marked, and where a text leaves the reference's. */
export function drawPrompt(found, reference) {
  const texts = found.sides.map((side) => (side.spans ? side.spans.map((one) => one[0]).join("") : null));
  const base = texts[reference];
  const boxes = found.sides.map((side, at) => {
    const { counts } = side;
    const length = counts && counts.num_steps ? short(1 + counts.num_accepted / counts.num_steps) : "–";
    const told = counts ? `${counts.num_tokens} tokens in ${counts.num_steps} steps, acceptance length ${length}` : "not answered";
    const leaves = base !== null && texts[at] !== null && at !== reference ? firstDifference(base, texts[at]) : null;
    const where = leaves === null ? null : leaves === -1 ? "same text as the reference" : "leaves the reference's text at the mark";
    return h("div", { class: "hw-cmp-answer" }, h("h4", {}, sign(at), " ", side.name), h("p", { class: "hw-muted" }, [told, where].filter(Boolean).join("; ")),
      side.spans ? h("div", { class: "hw-cmp-text" }, marked(side.spans, leaves)) : h("p", { class: "hw-nothing" }, counts ? "An evaluation keeps counts and no steps." : ""),
      side.run ? h("a", { class: "hw-small", href: `/live?run=${encodeURIComponent(side.run)}` }, "Open its steps") : liveLink(side, found.text));
  });
  return [h("h4", {}, "Prompt: ", found.prompt), found.text ? h("p", { class: "hw-cmp-asked" }, found.text) : null, h("div", { class: "hw-cmp-answers" }, boxes)].filter(Boolean);
}

function liveLink(side, text) {
  if (!side.live || !text || !side.counts) return null;
  const query = new URLSearchParams({ ...side.live, prompt: text, temperature: String(side.temperature) });
  return h("a", { class: "hw-small", href: `/live?${query}` }, "Decode it on the Live page");
}

/** Place of the first character that differs, -1 for equal texts. */
export function firstDifference(one, other) {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) if (one[at] !== other[at]) return at;
  return one.length === other.length ? -1 : length;
}

function marked(spans, leaves) {
  const found = [];
  let at = 0;
  for (const [text, accepted] of spans) {
    const place = leaves !== null && leaves >= at && leaves < at + text.length ? leaves - at : -1;
    const kind = accepted > 0 ? "drafted" : "own";
    const told = accepted > 0 ? `${accepted} drafted token${accepted === 1 ? "" : "s"} accepted in this step` : "no drafted token accepted";
    if (place >= 0) {
      if (place > 0) found.push(h("span", { class: kind, title: told }, text.slice(0, place)));
      found.push(h("mark", { title: "Here it leaves the reference's text" }, "⟂"), h("span", { class: kind, title: told }, text.slice(place)));
    } else found.push(h("span", { class: kind, title: told }, text));
    at += text.length;
  }
  if (leaves !== null && leaves >= at && leaves !== -1) found.push(h("mark", { title: "The reference goes on here" }, "⟂"));
  return found;
}

export function signed(change) {
  return `${change > 0 ? "+" : change < 0 ? "−" : "±"}${percent(Math.abs(change))}`;
}

function p(value) {
  return value < 0.001 ? "p < 0.001" : `p = ${value.toFixed(value < 0.1 ? 3 : 2)}`;
}

function words(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (value === true) return "yes";
  if (value === false) return "no";
  const text = String(value);
  return text.length > 300 ? `${text.slice(0, 299)}…` : text;
}
