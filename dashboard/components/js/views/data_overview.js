// One data set: what it is, what was counted, its first rows, its broken rows. Name and licence note can be changed here.

import { h, setText } from "../dom.js";
import { megabytes } from "./data_bring.js";

const MOST_CATEGORIES = 12;

export function overviewCard(page, failed) {
  const head = h("div", { class: "hw-set-head" });
  const numbers = h("div", { class: "hw-set-numbers" });
  const facts = h("p", { class: "hw-muted" });
  const trouble = h("p", { class: "hw-problem", role: "alert" });
  const charts = h("div", { class: "hw-data-pair" });
  const rows = h("div", { class: "hw-rows-scroll" });
  const broken = h("div", {});
  const box = h("section", { class: "hw-card hw-overview" }, head, numbers, facts, trouble, charts, rows, broken);
  page.on((changed) => {
    const shown = page.shown;
    if (!changed.has("shown") || !shown) return;
    head.replaceChildren(...heading(page, shown, failed));
    numbers.replaceChildren(...counts(shown));
    setText(facts, shown.facts.join(" · "));
    setText(trouble, shown.trouble || "");
    trouble.hidden = !shown.trouble;
    charts.replaceChildren(bars("Categories", categories(shown.categories)), bars(`Length in ${shown.length_unit}`, lengths(shown.lengths)));
    charts.hidden = !shown.lengths.length && !shown.categories.length;
    rows.replaceChildren(...(shown.preview.length ? table(page, shown) : []));
    broken.replaceChildren(...brokenRows(shown));
  });
  return box;
}

function heading(page, shown, failed) {
  const save = async (values) => {
    try {
      page.show(await page.feed.ask(`/headway/data/sets/${encodeURIComponent(shown.id)}/annotate`, values));
      failed(null);
      await page.load();
    } catch (error) {
      failed(error);
    }
  };
  const name = h("input", { type: "text", class: "hw-set-title", value: shown.name, "aria-label": "Name of the data set", maxlength: 200, onchange: (event) => save({ name: event.target.value }) });
  const licence = h("input", { type: "text", id: "hw-set-licence", value: shown.licence, maxlength: 500, placeholder: "not noted", onchange: (event) => save({ licence: event.target.value }) });
  const forget = h("button", { type: "button", class: "hw-small", title: "Takes it off the list; the file stays", onclick: async () => {
    try {
      await page.feed.ask(`/headway/data/sets/${encodeURIComponent(shown.id)}/forget`, {});
      await page.choose(null);
      await page.load();
      if (page.sets.length) await page.choose(page.sets[0].id);
    } catch (error) {
      failed(error);
    }
  } }, "Take off the list");
  return [
    h("div", { class: "hw-set-line" }, h("span", { class: `hw-kind ${shown.kind}` }, shown.kind), name, forget),
    h("p", { class: "hw-set-where" }, shown.lineage, h("br"), h("code", { title: shown.full_hash }, shown.hash), " · ", h("span", {}, shown.path)),
    h("div", { class: "hw-set-licence" }, h("label", { for: "hw-set-licence" }, "Licence note"), licence)];
}

function counts(shown) {
  const number = (value, word, kind = "") => h("span", { class: kind }, h("b", {}, value.toLocaleString("en")), ` ${word}`);
  return [number(shown.rows, shown.kind === "answers" ? "answers" : "usable rows"),
    number(shown.broken, shown.broken === 1 ? "broken row" : "broken rows", shown.broken ? "wrong" : ""),
    shown.bytes ? h("span", {}, h("b", {}, megabytes(shown.bytes))) : null].filter(Boolean);
}

function categories(pairs) {
  const rest = pairs.slice(MOST_CATEGORIES).reduce((sum, [, count]) => sum + count, 0);
  const shown = pairs.slice(0, MOST_CATEGORIES).map(([name, count]) => [name === "none" ? "no category" : name, count]);
  return rest ? [...shown, [`${pairs.length - MOST_CATEGORIES} more`, rest]] : shown;
}

function lengths(bins) {
  const short = (value) => (value >= 1024 ? `${value / 1024}k` : String(value));
  return bins.map((bin) => [bin.below === null ? `${short(bin.from)} or more` : `${short(bin.from)} – ${short(bin.below - 1 >= 1024 ? bin.below : bin.below - 1)}`, bin.count]);
}

/** Rows of name, bar, count. */
function bars(title, pairs) {
  const most = Math.max(1, ...pairs.map(([, count]) => count));
  return h("figure", { class: "hw-hbars" }, h("figcaption", {}, title), h("table", {}, h("tbody", {}, pairs.map(([name, count]) => {
    const bar = h("i", { class: count ? null : "none" });
    bar.style.width = `${(100 * count) / most}%`;
    return h("tr", {}, h("th", { scope: "row", title: name }, name), h("td", { class: "bar", "aria-hidden": "true" }, bar), h("td", { class: "count" }, count.toLocaleString("en")));
  }))));
}

function table(page, shown) {
  const answers = shown.kind === "answers";
  const names = answers ? ["Row", "Id", "Category", "Turn", "T", "Prompt tokens", "Answer tokens", "Ended by", ""]
    : ["Line", "Id", "Category", "Turns", "First turn", "Answers", "Tools", ""];
  const ended = { eos: "end token", length: "length limit", stop: "stop string" };
  const cells = (row) => (answers
    ? [row.line, row.id, row.category, row.turn, row.temperature, row.prompt_tokens, row.answer_tokens, ended[row.ended] || row.ended]
    : [row.line, row.id, row.category, row.turns, h("span", { class: "hw-clip", title: row.text }, row.text), row.answers || "–", row.tools || "–"]);
  const line = (row) => (row.problem
    ? h("tr", { class: "wrong" }, h("td", {}, row.line), h("td", { colspan: names.length - 1 }, h("span", { "aria-hidden": "true" }, "✕ "), `Broken: ${row.problem}`))
    : h("tr", { "data-row": row.number }, cells(row).map((cell) => h("td", {}, cell)),
      h("td", {}, h("button", { type: "button", class: "hw-small", title: "See this row token by token", onclick: () => page.lookAt(row.number) }, "Tokens"))));
  const body = h("table", { class: `hw-rows ${shown.kind}` }, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, shown.preview.map(line)));
  const first = shown.more ? `The first ${shown.preview.length} rows.` : "All rows.";
  return [h("div", { tabindex: "0", "aria-label": "First rows" }, body), h("p", { class: "hw-muted" }, first)];
}

function brokenRows(shown) {
  const rows = shown.broken_rows;
  if (!rows.length) return [];
  const told = shown.broken > rows.length ? `, the first ${rows.length} of them here` : "";
  return [h("details", { class: "hw-broken", open: rows.length <= 5 }, h("summary", {}, `${shown.broken.toLocaleString("en")} broken ${shown.broken === 1 ? "row is" : "rows are"} left out${told}`),
    h("ul", {}, rows.map(([number, reason]) => h("li", {}, h("b", {}, `Line ${number}`), `: ${reason}`))))];
}
