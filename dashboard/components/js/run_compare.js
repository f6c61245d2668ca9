// Some runs beside each other: figures, then the settings that differ; equal ones are folded away.

import { h, setText } from "./dom.js";
import { term } from "./terms.js";

export function mountComparison(feed) {
  const close = h("button", { type: "button", class: "hw-small", onclick: () => hide() }, "Close");
  const body = h("div", {});
  const problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const node = h("section", { class: "hw-card hw-compare", hidden: true, tabindex: "-1", "aria-label": "Comparison" },
    h("div", { class: "hw-card-head" }, h("h3", {}, "Compared"), h("span", { class: "hw-grow" }), close), problem, body);

  function hide() {
    node.hidden = true;
  }
  async function show(ids) {
    const query = new URLSearchParams(ids.map((id) => ["run", id]));
    node.hidden = false;
    problem.hidden = true;
    try {
      const found = await feed.ask(`/headway/table/compare?${query}`);
      body.replaceChildren(...draw(found));
      node.scrollIntoView({ block: "start" });
      node.focus({ preventScroll: true });
    } catch (error) {
      body.replaceChildren();
      setText(problem, error.message);
      problem.hidden = false;
    }
  }
  return { node, show };
}

function draw({ runs, figures, differing, equal }) {
  const head = h("tr", {}, h("th", {}, ""), runs.map((run, at) =>
    h("th", {}, h("a", { href: `/live?run=${encodeURIComponent(run.id)}` }, String.fromCharCode(65 + at)), " ", h("small", {}, run.drafter))));
  const sections = [h("tr", { class: "section" }, h("th", { colspan: runs.length + 1 }, differing.length ? "Settings that differ" : "All settings are equal"))];
  sections.push(...differing.map((one) => line(one.name, one.values.map(words))));
  sections.push(h("tr", { class: "section" }, h("th", { colspan: runs.length + 1 }, "What came of it")));
  sections.push(...figures.filter((one) => one.values.some((value) => value !== null)).map((one) => line(one.metric ? term(one.metric, one.name) : one.name, one.values.map((value) => figure(value, one.digits)), "figure")));
  return [
    h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-table hw-compared" }, h("thead", {}, head), h("tbody", {}, sections))),
    h("details", { class: "hw-equal" }, h("summary", {}, `${equal.length} equal settings`), h("dl", {}, equal.map((one) => [h("dt", {}, one.name), h("dd", {}, words(one.value))]))),
  ];
}

function line(name, values, kind = null) {
  return h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", { class: kind, title: value.length > 120 ? value : null }, value.length > 400 ? `${value.slice(0, 399)}…` : value)));
}

function words(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (value === true) return "yes";
  return value === false ? "no" : String(value);
}

function figure(value, digits) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
