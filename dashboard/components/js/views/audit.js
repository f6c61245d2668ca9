// The right side of the Audit page: the verdict of the audit that is shown, its evidence, its certificate, and the others.
//
// value: {job: id or null, error: sentence or null, at}. Triggers quick (audit the built-in heads for two minutes).

import { h } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { term } from "../terms.js";

const QUIETEST_MS = 1500;
const SMALLEST = 1e-8; // of the scale of p-values
const VERDICTS = {
  exact: { title: "The output is the target's own", sign: "✓" },
  deviates: { title: "The output deviates from the target's", sign: "✕" },
  "too few": { title: "Too few samples to tell", sign: "?" },
  approximate: { title: "Approximate, as was chosen", sign: "≈" },
};
const PARTS = [["equal", "the likeliest", "equal"], ["ties", "tied with it", "ties"], ["errors", "wrong", "errors"]];
const count = (value) => Number(value).toLocaleString("en");

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed, gradio));
}

class Page extends ShownJob {
  constructor(feed, { trigger }) {
    super(feed, { kind: "audit", title: "Audits", quietestMs: QUIETEST_MS, step: Math.floor });
    this.result = h("div", { class: "hw-audit-result" });
    this.shown = h("section", { class: "hw-card hw-audit-card", hidden: true }, this.card, this.result, this.notes, this.conditions);
    const start = h("button", { type: "button", class: "hw-primary", onclick: () => trigger("quick", {}) }, "Audit the built-in heads");
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Is the output still the target's own?"),
      h("p", {}, "Drafting promises to change nothing but the speed. An audit holds that promise against real answers of your target, drafter, tree and rule: "
        + "every greedy token, every probability that the checking pass gave, and the law of the sampled tokens, all compared with the model's own plain forward pass."),
      h("p", {}, "It ends with a verdict in one sentence and a certificate to take along. Two minutes are enough for a first look at the built-in heads."), start);
    this.node = h("div", { class: "hw-audit" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.result.replaceChildren();
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/audits/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.drawHead(data, null);
      this.result.replaceChildren(...(data.findings ? over(data, id) : underway(data)));
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }
}

function over(data, id) {
  const { findings } = data;
  const { title, sign } = VERDICTS[data.verdict] || { title: data.verdict, sign: "?" };
  const place = `/headway/audits/${encodeURIComponent(id)}/certificate`;
  return [
    h("div", { class: "hw-audit-verdict", "data-verdict": data.verdict, role: "status" }, h("span", { class: "hw-audit-sign", "aria-hidden": "true" }, sign),
      h("div", {}, h("h2", {}, title), h("p", {}, data.sentence))),
    h("div", { class: "hw-actions" }, h("a", { class: "hw-small", href: `${place}.html`, target: "_blank", rel: "noopener" }, "Open the certificate"),
      h("a", { class: "hw-small", href: `${place}.html?save=1` }, "Save it"), h("a", { class: "hw-small", href: `${place}.json` }, "JSON")),
    h("div", { class: "hw-audit-parts" }, ...[greedy(findings.greedy), passes(findings.passes), drift(findings.drift)].filter(Boolean)),
    sampling(findings.sampling, data.asked),
  ].filter(Boolean);
}

/** While it runs: what the answers looked at so far say; no verdict before the end. */
function underway(data) {
  const { so_far: found, job } = data;
  const parts = [greedy(found.greedy), passes(found.passes)].filter(Boolean);
  if (!parts.length) return [h("p", { class: "hw-nothing" }, ["queued", "running"].includes(job.status) ? "Nothing was looked at yet." : "It ended before anything was looked at.")];
  return [h("p", { class: "hw-muted" }, "Until now; the verdict comes at the end."), h("div", { class: "hw-audit-parts" }, parts)];
}

function part(title, ...content) {
  return h("section", { class: "hw-audit-part" }, h("h3", {}, title), content);
}

function greedy(found) {
  if (!found) return null;
  const bar = h("div", { class: "hw-audit-bar", role: "img", "aria-label": PARTS.map(([key, words]) => `${count(found[key])} ${words}`).join(", ") },
    PARTS.map(([key, , kind]) => h("i", { class: kind, style: `width:${((100 * found[key]) / Math.max(1, found.tokens)).toFixed(2)}%` })));
  const first = found.first_error;
  return part(term("greedy_equality", "At temperature 0"),
    h("p", { class: "hw-audit-number" }, h("b", {}, `${count(found.equal)} of ${count(found.tokens)}`), " tokens are the target's likeliest"), bar,
    h("ul", { class: "hw-audit-legend" }, PARTS.map(([key, words, kind]) => h("li", { class: kind }, h("i", { "aria-hidden": "true" }), `${count(found[key])} ${words}`))),
    h("p", { class: "hw-muted" }, `${count(found.answers)} answers.`, found.largest_gap === undefined ? "" : ` The largest gap between two logits is ${short(found.largest_gap)}.`,
      first ? ` First wrong: token ${first.place + 1} of an answer.` : ""));
}

function passes(found) {
  if (!found) return null;
  return part(term("largest_difference", "The checking pass"),
    h("p", { class: "hw-audit-number" }, h("b", {}, short(found.largest_difference)), " is the largest difference in a probability"),
    h("p", { class: found.off ? "hw-problem" : "hw-muted" }, `${count(found.compared)} drafted tokens compared with a plain pass; ${found.off ? count(found.off) : "none"} beyond rounding.`));
}

function drift(found) {
  if (!found) return null;
  const figure = (value) => (value === null ? "unknown" : value.toFixed(4));
  return part(term("total_variation", "Drift of the rule"),
    h("p", { class: "hw-audit-number" }, h("b", {}, figure(found.total_variation)), " in total variation at a position"),
    h("p", { class: "hw-muted" }, `${count(found.accepted)} of ${count(found.positions)} tokens were accepted by threshold. `, term("kl_divergence", "KL divergence"), `: ${figure(found.kl)} nats.`));
}

/** A row a test: where its p-value stands on a logarithmic scale, and the bar that no exact drafter falls below. */
function sampling(found, asked) {
  if (!found) return null;
  const place = (p) => `${((100 * Math.log(Math.max(p, SMALLEST))) / Math.log(SMALLEST)).toFixed(2)}%`;
  const row = (test) => h("tr", { class: test.found ? "found" : "" }, h("th", { scope: "row" }, test.name), h("td", { class: "number" }, count(test.positions)),
    h("td", { class: "hw-audit-scale" }, h("span", { class: "hw-audit-track", "aria-hidden": "true" }, h("i", { class: "limit", style: `right:${place(found.limit)}` }),
      test.p_value === null ? null : h("i", { class: "dot", style: `right:${place(test.p_value)}` }))),
    h("td", { class: "number" }, test.p_value === null ? "too few" : short(test.p_value), test.found ? h("span", { class: "hw-tag differs" }, "deviates") : null),
    h("td", { class: "number" }, test.detectable ? test.detectable.toFixed(3) : "–"));
  const enough = Math.min(1, found.positions / found.needed);
  return h("section", { class: "hw-audit-part wide" }, h("h3", {}, "Sampled tokens by their rank"),
    h("p", { class: "hw-muted" }, found.missing
      ? `${count(found.positions)} of the ${count(found.needed)} tokens that a deviation of ${asked.total_variation} needs (${Math.round(100 * enough)} %).`
      : `${count(found.positions)} tokens; ${count(found.needed)} are enough to find a deviation of ${asked.total_variation} with a chance of ${Math.round(100 * asked.power)} %.`,
    ` ${count(found.steps)} steps accepted ${count(found.accepted)} drafted tokens.`),
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation hw-audit-tests" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Tokens"), h("th", { scope: "col", class: "number" }, "Number"),
        h("th", { scope: "col", class: "hw-audit-scale" }, h("span", { class: "hw-audit-ends" }, h("span", {}, "10⁻⁸"), h("span", {}, "1"))),
        h("th", { scope: "col", class: "number" }, term("p_value", "p-value")), h("th", { scope: "col", class: "number", title: "The total variation among the ranks that this test finds with the asked chance" }, "Would find"))),
      h("tbody", {}, found.tests.map(row)))),
    h("p", { class: "hw-muted" }, `Left of the line (p below ${short(found.limit)}) a test counts as a deviation; over all tests together an exact drafter is called inexact in ${short(100 * asked.alpha)} % of audits. `,
      found.branches ? `In the world of tables ${count(found.branches.accepted)} drafts were accepted, ${count(found.branches.later_siblings)} of them after a sibling had failed, and ${count(found.branches.residuals)} tokens came from a residual.` : ""));
}

function short(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1).replace("e-", "·10^−").replace(/\^(−\d+)/, (_, power) => [...power].map((digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["−0123456789".indexOf(digit)]).join(""));
}
