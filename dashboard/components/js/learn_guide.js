// The guide of the Learn page: which family for whom, the families beside each other, a card a knob, questions, failures.
// Words come from the server's files, figures from what was measured; nothing here is a number of its own.

import { h } from "./dom.js";
import { knobParts, where } from "./knob_card.js";
import { term } from "./terms.js";

const WEIGHTS = [["own", "we own them and may change them"], ["open", "open weights that stay as they are"], ["closed", "behind somebody's API"]];
const ADAPTERS = [["none", "none"], ["merged", "one, merged into the weights"], ["many", "several at once over one base"]];
const QUALITY = [["exact", "the target's own output, exactly"], ["drift", "a small drift that is measured"]];
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const RULES = { greedy: "the greedy rule: the same text, token for token", rejection: "the rejection rule: the same distribution", typical: "the typical rule: faster, and the output drifts" };
const COLUMNS = [["reads", "Reads"], ["drafts", "Drafts with"], ["costs", "Costs"], ["trains_on", "Trains on"], ["changes", "Changes"]];

let asked = null; // promise of the guide; one question for all sections

function guide(feed) {
  asked = asked || feed.ask("/headway/learn/guide");
  asked.catch(() => { asked = null; });
  return asked;
}

/** Fills a section when the guide is there, or says what is wrong. */
function filled(feed, told, draw) {
  guide(feed).then(draw).catch((error) => told(error.message));
}

// -- the chooser ---------------------------------------------------------------------------------------------------

export function chooser(body, feed, told, { figure, slider, choice }) {
  let changed = () => {};
  const touch = () => changed();
  const weights = choice({ label: "The weights", options: WEIGHTS, changed: touch });
  const tunes = slider({ label: "Fine-tunes a month", min: 0, max: 30, step: 1, value: 1, show: String, changed: touch });
  const adapters = choice({ label: "Adapters", options: ADAPTERS, changed: touch });
  const batch = slider({ label: "Sequences at once", min: 0, max: BATCHES.length - 1, step: 1, value: 0, show: (at) => String(BATCHES[at]), changed: touch });
  const temperature = slider({ label: "Temperature", min: 0, max: 1.5, step: 0.1, value: 0, show: (v) => (v ? v.toFixed(1) : "0, greedy"), changed: touch });
  const quality = choice({ label: "Quality", options: QUALITY, changed: touch });
  const found = h("div", { class: "hw-chosen", "aria-live": "polite" });
  body.append(h("p", {}, "Six answers, and the family to train first, with the reasons. It is a first choice, not a prediction: train it, measure it, and let the numbers decide."),
    h("div", { class: "hw-learn-split" },
      h("div", { class: "hw-sliders hw-asked" }, [weights, tunes, adapters, batch, temperature, quality].map((one) => one.node)), found));
  changed = figure(feed, "choose", () => ({ weights: weights.value, fine_tunes: tunes.value, adapters: adapters.value, batch: BATCHES[batch.value], temperature: temperature.value, quality: quality.value }), (answer) => {
    const [first, ...others] = answer.families;
    found.replaceChildren(
      h("p", { class: "hw-learn-verdict" }, first.family === "plain" ? "Nothing can be drafted here." : h("span", {}, "Start with ", h("a", { href: `#family-${first.family}` }, first.name), `, and accept by ${RULES[answer.rule]}.`)),
      reasons(first.reasons),
      others.length ? h("div", { class: "hw-chosen-next" }, h("h4", {}, "Next best"), others.map((one) => h("details", {}, h("summary", {}, one.name), reasons(one.reasons)))) : "",
      answer.notes.length ? h("div", {}, h("h4", {}, "Whatever you take"), reasons(answer.notes)) : "");
  }, told);
}

function reasons(list) {
  return h("ul", { class: "hw-reasons" }, list.map((one) => h("li", { class: one.speaks_for ? "for" : "against" },
    h("span", { class: "hw-sign", "aria-label": one.speaks_for ? "for it" : "against it", role: "img" }, one.speaks_for ? "+" : "−"), h("span", {}, one.text, " ", where(one.link)))));
}

// -- the families --------------------------------------------------------------------------------------------------

export function families(body, feed, told) {
  const place = h("div", { class: "hw-learn-scroll", tabindex: "0", role: "group", "aria-label": "Families" });
  body.append(h("p", {}, "What each looks at, how it drafts, and which engines serve it. Figures are measurements of this store or of the project, each under its own conditions, so they compare within one line and not across."), place);
  filled(feed, told, (data) => place.replaceChildren(h("table", { class: "hw-families" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Family"), COLUMNS.map(([, name]) => h("th", { scope: "col" }, name)), h("th", { scope: "col" }, "Served by"),
      h("th", { scope: "col" }, term("acceptance_length", "Length"), " and ", term("speedup", "speedup")))),
    h("tbody", {}, data.families.map((one) => h("tr", { id: `family-${one.key}` }, h("th", { scope: "row" }, one.name), COLUMNS.map(([key]) => h("td", {}, one[key])),
      h("td", {}, h("div", {}, "vLLM: ", one.vllm), h("div", {}, "SGLang: ", one.sglang)), h("td", {}, measured(one))))))));
}

function measured(one) {
  if (one.key === "plain") return "1 and 1, by definition";
  if (!one.measured.length) return [h("span", { class: "hw-muted" }, "not measured yet"), h("code", { class: "hw-once" }, one.command)];
  return one.measured.map((found) => h("div", { class: "hw-measured" }, h("b", {}, found.acceptance_length.toFixed(2)), found.speedup === null ? "" : h("b", {}, ` ${found.speedup.toFixed(2)}×`), " ",
    found.link ? h("a", { href: found.link }, found.conditions) : h("small", {}, found.conditions)));
}

// -- knobs ---------------------------------------------------------------------------------------------------------

export function knobs(body, feed, told) {
  const place = h("div", { class: "hw-knob-cards" });
  body.append(h("p", {}, "What every setting does and what it costs. The same words stand behind the question marks of the forms."), place);
  filled(feed, told, (data) => place.replaceChildren(...data.knobs.map((one) => h("article", { class: "hw-knob-card", id: `knob-${one.key}` }, knobParts(one)))));
}

// -- questions and failures ----------------------------------------------------------------------------------------

export function questions(body, feed, told) {
  const place = h("div", { class: "hw-questions" });
  body.append(place);
  filled(feed, told, (data) => place.replaceChildren(...data.questions.map((one) => h("details", {}, h("summary", {}, one.asks),
    h("p", {}, one.says, " ", one.page ? where(one.page) : ""), one.command ? h("code", { class: "hw-once" }, one.command) : null))));
}

export function failures(body, feed, told) {
  const place = h("div", { class: "hw-knob-cards" });
  body.append(h("p", {}, "Five ways in which a drafter that was good goes bad, and the page that shows each."), place);
  filled(feed, told, (data) => place.replaceChildren(...data.failures.map((one) => h("article", { class: "hw-knob-card hw-failure" }, h("h3", {}, one.name),
    h("p", {}, one.sign), h("p", {}, h("b", {}, "Why. "), one.cause), h("p", {}, h("b", {}, "What mends it. "), one.mend, " ", where(one.page))))));
}
