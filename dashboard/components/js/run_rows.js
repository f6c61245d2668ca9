// The rows and the groups of the table of runs. Draws what it is given.

import { h, s } from "./dom.js";
import { ago, statusIcon } from "./job_card.js";
import { termMark } from "./terms.js";
import { decimal } from "./text.js";

/** `text` columns sort upwards at first, numbers downwards; `wide` ones are left out on narrow pages. */
export const COLUMNS = [
  { name: "prompt", title: "Prompt", text: true, unsorted: true },
  { name: "target", title: "Version", text: true, wide: true },
  { name: "drafter", title: "Drafter", text: true },
  { name: "tree", title: "Tree", text: true, unsorted: true, wide: true },
  { name: "temperature", title: "T", unsorted: true, number: true },
  { name: "tokens", title: "Tokens", number: true, wide: true },
  { name: "acceptance_length", title: "Acceptance length", number: true, hint: "Accepted tokens a step, and the target's own one", metric: "acceptance_length" },
  { name: "tokens_per_s", title: "Tokens/s", number: true, metric: "tokens_per_s" },
  { name: "at", title: "When" },
];
const STATUS_SHAPE = { queued: "ring", running: "turning", finished: "tick", cancelled: "square", failed: "cross", interrupted: "bolt" };

export function drawRows(rows, table) {
  if (!rows.length) return h("p", { class: "hw-nothing" }, "No run matches.");
  const all = h("input", { type: "checkbox", "aria-label": "Select all shown" });
  all.checked = rows.every((row) => table.selection.has(row.id));
  all.addEventListener("change", () => table.selection.set(rows, all.checked));
  const heads = COLUMNS.map((column) => h("th", { class: classOf(column), "aria-sort": sortOf(column, table.query), title: column.hint }, headOf(column, table), column.metric ? termMark(column.metric, column.title) : null));
  return h("table", { class: "hw-table" }, h("thead", {}, h("tr", {}, h("th", { class: "pick" }, all), h("th", { class: "state" }, h("span", { class: "hw-unseen" }, "Status")), heads)),
    h("tbody", {}, rows.map((row) => lineOf(row, table))));
}

function headOf(column, table) {
  if (column.unsorted) return column.title;
  const sorted = sortOf(column, table.query);
  const arrow = { ascending: " ↑", descending: " ↓" }[sorted] || "";
  return h("button", { type: "button", class: "hw-sort", onclick: () => table.sortBy(column.name) }, column.title, h("span", { "aria-hidden": "true" }, arrow));
}

function sortOf(column, query) {
  if ((query.sort || "at") !== column.name) return null;
  return query.desc === "0" ? "ascending" : "descending";
}

function classOf(column) {
  return [column.name, column.number ? "number" : null, column.wide ? "wide" : null].filter(Boolean).join(" ");
}

function lineOf(row, table) {
  const pick = h("input", { type: "checkbox", "aria-label": "Select this run" });
  pick.checked = table.selection.has(row.id);
  pick.addEventListener("change", () => table.selection.toggle(row, pick.checked));
  const line = h("tr", { "data-run": row.id, class: pick.checked ? "picked" : null }, h("td", { class: "pick" }, pick),
    h("td", { class: "state", title: row.error || row.status }, statusIcon(STATUS_SHAPE[row.status] || "ring"), h("span", { class: "hw-unseen" }, row.status)),
    COLUMNS.map((column) => h("td", { class: classOf(column), title: titleOf(column, row) }, cell(column, row))));
  return line;
}

function cell(column, row) {
  const value = row[column.name];
  if (column.name === "prompt") {
    return [h("a", { href: `/live?run=${encodeURIComponent(row.id)}` }, value || "(no text)"), marks(row)];
  }
  if (column.name === "at") return ago(value);
  if (value === null || value === undefined) return "–";
  if (column.name === "acceptance_length") return decimal(value);
  if (column.name === "tokens_per_s") return value >= 100 ? value.toFixed(0) : value.toFixed(1);
  if (column.name === "tree") return row.own_tree ? h("span", { class: "own" }, "own") : value.length > 22 ? `${value.slice(0, 21)}…` : value;
  return String(value);
}

function titleOf(column, row) {
  if (column.name === "at") return new Date(row.at).toLocaleString();
  if (column.name === "prompt") return row.prompt;
  return column.text ? String(row[column.name] ?? "") : null;
}

/** Tags, and what has to be known about a number: measured beside something else, no steps any more. */
function marks(row) {
  const words = row.tags.map((tag) => h("span", { class: "hw-run-tag" }, tag));
  if (row.contended) words.push(h("span", { class: "hw-run-tag note", title: "Measured while something else used the machine: its times don't count" }, "contended"));
  if (!row.replayable) words.push(h("span", { class: "hw-run-tag note", title: "Its recorded steps were dropped to save space" }, "no steps"));
  return words.length ? h("span", { class: "hw-run-tags" }, words) : null;
}

export function drawGroups(groups, open) {
  if (!groups.length) return h("p", { class: "hw-nothing" }, "No run matches.");
  const most = Math.max(...groups.map((group) => group.runs));
  const line = (group) => {
    const name = group.filter === null ? group.name : h("button", { type: "button", class: "hw-sort", onclick: () => open(group) }, group.name);
    return h("tr", {}, h("td", { class: "prompt" }, name), h("td", { class: "share" }, bar(group.runs / most)), h("td", { class: "number" }, group.runs.toLocaleString("en")),
      h("td", { class: "number wide" }, group.tokens.toLocaleString("en")), h("td", { class: "number" }, decimal(group.acceptance_length)), h("td", { class: "number" }, decimal(group.tokens_per_s, 1)));
  };
  return h("table", { class: "hw-table hw-groups" },
    h("thead", {}, h("tr", {}, ["Group", "", "Runs", "Tokens", "Acceptance length", "Tokens/s"].map((title, at) => h("th", { class: at > 1 ? `number${at === 3 ? " wide" : ""}` : null }, title)))),
    h("tbody", {}, groups.map(line)));
}

function bar(share) {
  return s("svg", { width: 90, height: 8, viewBox: "0 0 90 8", "aria-hidden": "true" }, s("rect", { class: "hw-share", width: Math.max(1, 90 * share), height: 8, rx: 2 }));
}
