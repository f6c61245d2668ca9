// The right side of the Adapters page: what own heads gain each adapter, the tables behind that, and the mix of traffic, whose
// shares can be moved: it is computed anew from what was measured, by the server, which alone knows the formula.
//
// value: {job: id or null, error: sentence or null, at}.

import { h, setText } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { term } from "../terms.js";

const QUIETEST_MS = 1500;
const MIX_MS = 120;
const SIGNS = { earns: "✓", "does not": "–", "too few": "?" };

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed));
}

class Page extends ShownJob {
  constructor(feed) {
    super(feed, { kind: "adapters", title: "Comparisons of adapters", quietestMs: QUIETEST_MS, step: Math.floor });
    this.result = h("div", { class: "hw-adp-result" });
    this.shown = h("section", { class: "hw-card hw-adp-card", hidden: true }, this.card, this.result, this.notes, this.conditions);
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Which adapter earns its own heads?"),
      h("p", {}, "One target, several LoRA adapters: one drafter can serve them all, or each can have its own. Every adapter answers its prompts, heads are trained for each, "
        + "for all together, and for the target alone, and all are measured in turns on prompts that none of them has seen."),
      h("p", {}, "It ends with a sentence for each adapter, and with what your mix of traffic gains, which you can then move. Write NAME=ADAPTER and NAME=FILE at the side, one a line."));
    this.node = h("div", { class: "hw-adp" }, this.problem, this.welcome, this.shown, this.list);
  }

  reset() {
    this.result.replaceChildren();
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/adapters/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.drawHead(data, null);
      this.result.replaceChildren(...(data.mix ? over(this.feed, data, id) : underway(data)));
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }
}

function underway({ job }) {
  const words = ["queued", "running"].includes(job.status) ? "Answers, heads and measurements come first; what they say stands here at the end." : "It ended before anything could be said.";
  return [h("p", { class: "hw-nothing" }, words)];
}

function over(feed, data, id) {
  return [
    gains(data.gains),
    mixture(feed, data.mix, id),
    ...data.adapters.map(adapter),
    h("div", { class: "hw-actions" }, h("a", { class: "hw-small", href: `/headway/adapters/${encodeURIComponent(id)}/report.json` }, "JSON")),
  ];
}

/** Of each adapter what own heads gain over the shared drafter, on one scale: a line at nothing, one at what was asked for. */
function gains({ low, high, border, rows }) {
  const at = (value) => `${((100 * (value - low)) / (high - low)).toFixed(2)}%`;
  const bar = (row) => h("span", { class: "hw-adp-bar", "aria-hidden": "true" }, h("i", { class: "zero", style: `left:${at(0)}` }), h("i", { class: "border", style: `left:${at(border)}` }),
    row.low === null ? null : h("i", { class: "span", style: `left:${at(row.low)};right:calc(100% - ${at(row.high)})` }),
    row.middle === null ? null : h("i", { class: "dot", style: `left:${at(row.middle)}` }));
  return h("section", { class: "hw-adp-gains" }, h("h3", {}, "What own heads gain over the shared drafter"),
    h("ul", {}, rows.map((row) => h("li", { "data-verdict": row.verdict }, h("b", { class: "hw-adp-who" }, row.name), bar(row), h("span", { class: "hw-adp-gain" }, row.text)))),
    h("p", { class: "hw-muted" }, `More tokens/s on the same prompts, with its `, term("interval", "interval"), `. The dashed line is ${percents(border)}, from which on own heads were said to be worth it.`));
}

function percents(share) {
  return `${Number((100 * share).toPrecision(3))} %`;
}

/** The shares as sliders, and what each way of drafting gives for them. */
function mixture(feed, first, id) {
  const names = Object.keys(first.shares);
  const sentence = h("p", { class: "hw-adp-sentence", role: "status" });
  const problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const body = h("tbody");
  const shown = new Map();
  const sliders = new Map(names.map((name) => [name, h("input", { type: "range", min: 0, max: 100, step: 1, value: Math.round(100 * first.shares[name]), "aria-label": `Traffic of ${name}` })]));
  let timer = null;
  let asked = 0;
  const draw = (mix) => {
    setText(sentence, mix.sentence);
    for (const name of names) setText(shown.get(name), percents(mix.shares[name]));
    body.replaceChildren(...mix.rows.map((row) => h("tr", { class: row.strategy === "plain" ? "hw-plain" : "", "data-strategy": row.strategy },
      h("th", { scope: "row" }, h("span", { class: "hw-who hw-adp-way" }, h("span", {}, row.label, row.fastest ? h("span", { class: "hw-best" }, "fastest") : null,
        row.strategy === "earned" ? h("small", {}, row.own.length ? `own heads: ${row.own.join(", ")}` : "none earns its own") : null))),
      h("td", {}, h("b", {}, row.speed.text), small(row.speed.sure), h("i", { class: "hw-adp-speed", style: `width:${(100 * row.share).toFixed(1)}%`, "aria-hidden": "true" })),
      h("td", {}, row.over_plain.text, small(row.over_plain.sure)), h("td", {}, change(row.over_shared)), h("td", {}, row.memory), h("td", {}, row.training))));
  };
  const ask = async () => {
    const number = (asked += 1);
    if ([...sliders.values()].every((one) => Number(one.value) === 0)) {
      setText(problem, "The traffic adds up to nothing; give at least one adapter a share above 0.");
      problem.hidden = false;
      return;
    }
    try {
      const mix = await feed.ask(`/headway/adapters/${encodeURIComponent(id)}/mix`, { shares: Object.fromEntries([...sliders].map(([name, one]) => [name, Number(one.value)])) });
      if (number !== asked) return;
      problem.hidden = true;
      draw(mix);
    } catch (error) {
      if (number !== asked) return;
      setText(problem, error.message);
      problem.hidden = false;
    }
  };
  const moved = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, MIX_MS);
  };
  const rows = names.map((name) => {
    const value = h("span", { class: "hw-adp-share" });
    shown.set(name, value);
    sliders.get(name).addEventListener("input", moved);
    return h("label", {}, h("span", { class: "hw-adp-who" }, name), sliders.get(name), value);
  });
  draw(first);
  return h("section", { class: "hw-adp-mix" }, h("h3", {}, "Your traffic"), h("div", { class: "hw-adp-sliders" }, rows), problem, sentence,
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation" }, h("thead", {}, h("tr", {},
      head("Way"), head(term("tokens_per_s", "Tokens/s")), head(term("speedup", "Over plain")), head("Over one shared"), head("Memory"), head("Training"))), body)),
    h("p", { class: "hw-muted" }, "Shares are of all tokens written. Time per token is what adds, so the speed of a mix is the harmonic mean of the adapters' own."));
}

function adapter(one) {
  return h("section", { class: "hw-adp-one", "data-adapter": one.name, "data-verdict": one.verdict },
    h("h3", {}, h("span", { class: "hw-adp-sign", "aria-hidden": "true" }, SIGNS[one.verdict]), one.name, h("span", { class: "hw-adp-word" }, one.word)),
    h("p", {}, one.sentence),
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-evaluation" }, h("thead", {}, h("tr", {},
      head("Drafter"), head(term("acceptance_length", "Acceptance length")), head(term("speedup", "Over plain")), head(term("tokens_per_s", "Tokens/s")), head("Over the shared one"), head(term("acceptance_marginal", "By depth")))),
    h("tbody", {}, one.rows.map((row) => h("tr", { class: row.plain ? "hw-plain" : "", "data-drafter": row.drafter },
      h("th", { scope: "row" }, h("span", { class: "hw-who hw-adp-way" }, h("span", {}, row.label, row.fastest ? h("span", { class: "hw-best" }, "fastest") : null))),
      h("td", {}, h("b", {}, row.length.text), small(row.length.sure)), h("td", {}, row.speedup.text, small(row.speedup.sure)), h("td", {}, row.speed), h("td", {}, change(row.over_shared)), h("td", {}, depths(row.depths))))))),
    h("p", { class: "hw-muted" }, `${one.prompts} held-out prompts. Its own heads cost ${one.cost}.`));
}

function head(content) {
  return h("th", { scope: "col" }, content);
}

function small(text) {
  return text ? h("small", {}, text) : null;
}

function change({ text, sure, way }) {
  return [h("span", { class: "hw-adp-change", "data-way": way }, text), small(sure)];
}

/** Acceptance at each depth as bars, and in words for those who hear the page. */
function depths(all) {
  if (!all.length) return null;
  const words = all.map((one, at) => `depth ${at + 1}: ${one.value === null ? "unknown" : one.value.toFixed(2)}`
    + `${one.interval ? ` (${one.interval[0].toFixed(2)} to ${one.interval[1].toFixed(2)})` : ""}${one.conditional === null ? "" : `, ${one.conditional.toFixed(2)} of the steps that drafted there`}`).join("; ");
  return h("span", { class: "hw-depths", title: words }, all.map((one) => h("span", { class: "hw-depth", "aria-hidden": "true" }, h("i", { style: `height:${(100 * (one.value || 0)).toFixed(1)}%` }))), h("span", { class: "hw-unseen" }, words));
}
