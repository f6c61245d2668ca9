// The Runs page: filter, sort, group, select, compare, tag, throw away and take back, disk use. What is shown stands in
// the address, so a reload or a link shows the same.

import { h, setText } from "../dom.js";
import { isTyping } from "../keys.js";
import { mountComparison } from "../run_compare.js";
import { mountDisk } from "../run_disk.js";
import { COLUMNS, drawGroups, drawRows } from "../run_rows.js";
import { mountSelection } from "../run_selection.js";

const GROUPS = [["", "no groups"], ["version", "version"], ["drafter", "drafter"], ["tree", "tree"],
  ["temperature", "temperature"], ["rule", "rule"], ["tag", "tag"], ["status", "status"]];
const FILTERS = ["version", "drafter", "tree", "temperature", "rule", "tag", "status"];
const TYPING_MS = 150;

export function mount(element, feed) {
  const table = new Table(feed);
  element.replaceChildren(table.node);
  table.load();
}

class Table {
  constructor(feed) {
    this.feed = feed;
    this.query = fromAddress();
    this.rows = [];
    this.current = -1; // the row that the keys stand on
    this.asked = 0;
    this.selection = mountSelection(this);
    this.comparison = mountComparison(feed);
    this.disk = mountDisk(this);
    this._build();
    document.addEventListener("keydown", (event) => this._key(event));
    window.addEventListener("popstate", () => {
      this.query = fromAddress();
      this._show();
      this.load();
    });
    let running = null;
    feed.on(() => { // a run that has ended belongs into the table
      const now = feed.status ? feed.status.running : null;
      if (running && now !== running) this.load();
      running = now;
    });
  }

  _build() {
    this.search = h("input", { type: "search", class: "hw-search", placeholder: "Filter the runs", "aria-label": "Filter the runs", title: "Looks in prompt, answer, drafter, tags and notes" });
    this.regex = h("input", { type: "checkbox" });
    this.group = h("select", { "aria-label": "Group by" }, GROUPS.map(([value, name]) => h("option", { value }, value ? `Group by ${name}` : "No groups")));
    this.trashed = h("input", { type: "checkbox" });
    this.count = h("span", { class: "hw-count", role: "status" });
    this.chips = h("div", { class: "hw-filters" });
    this.problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
    this.body = h("div", { class: "hw-table-scroll", tabindex: "-1" });
    this.pages = h("div", { class: "hw-pages" });
    this.csv = h("a", { class: "hw-small" }, "CSV");
    this.json = h("a", { class: "hw-small" }, "JSON");
    this.empty = h("section", { class: "hw-card hw-welcome", hidden: true }, h("h1", {}, "Every decode run is kept here, with its steps."),
      h("p", {}, "Run a prompt on the Live page and it appears: to replay it, compare it with others, or export its numbers."),
      h("div", { class: "hw-actions" }, h("a", { class: "hw-primary", href: "/live?demo=1" }, "Make a first run")));
    let timer = null;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.change({ q: this.search.value }), TYPING_MS);
    });
    this.regex.addEventListener("change", () => this.change({ regex: this.regex.checked ? "1" : "" }));
    this.group.addEventListener("change", () => this.change({ group: this.group.value }));
    this.trashed.addEventListener("change", () => {
      this.selection.clear();
      this.change({ trashed: this.trashed.checked ? "1" : "" });
    });
    const bar = h("div", { class: "hw-table-bar" }, this.search, h("label", { title: "Python's regular expressions, such as ^Why|chain-\\d" }, this.regex, "Regex"),
      this.group, h("label", {}, this.trashed, "Waste basket"), h("span", { class: "hw-grow" }), h("span", { class: "hw-export" }, this.count, this.csv, this.json));
    this.card = h("section", { class: "hw-card hw-runs", hidden: true }, bar, this.chips, this.problem, this.selection.node, this.body, this.pages);
    this.node = h("div", { class: "hw-runs-page" }, this.empty, this.comparison.node, this.card, this.disk.node);
    this._show();
  }

  /** The fields as the query says. */
  _show() {
    this.search.value = this.query.q || "";
    this.regex.checked = this.query.regex === "1";
    this.group.value = this.query.group || "";
    this.trashed.checked = this.query.trashed === "1";
  }

  change(changes) {
    this.query = { ...this.query, page: "", ...changes };
    for (const name of Object.keys(this.query)) if (!this.query[name]) delete this.query[name];
    const address = new URL(window.location.href);
    address.search = new URLSearchParams(this.query).toString();
    window.history.replaceState(null, "", address);
    this._show();
    this.load();
  }

  async load() {
    const asked = ++this.asked;
    const query = new URLSearchParams(this.query);
    let found;
    try {
      found = await this.feed.ask(`/headway/table?${query}`);
    } catch (error) {
      if (asked !== this.asked) return;
      this.card.hidden = false;
      setText(this.problem, error.message);
      this.problem.hidden = false;
      return;
    }
    if (asked !== this.asked) return; // a later keystroke has asked again
    this.problem.hidden = true;
    this._draw(found);
  }

  _draw(found) {
    const anything = found.total > 0 || Object.keys(this.query).length > 0;
    this.empty.hidden = anything;
    this.card.hidden = !anything;
    this.disk.node.hidden = !anything;
    this.rows = found.rows;
    this.current = Math.min(this.current, this.rows.length - 1);
    setText(this.count, `${found.total.toLocaleString("en")} run${found.total === 1 ? "" : "s"}${this.query.trashed ? " in the waste basket" : ""}`);
    const query = new URLSearchParams({ ...this.query, page: "" }).toString();
    this.csv.href = `/headway/table.csv?${query}`;
    this.json.href = `/headway/table.json?${query}`;
    this._drawChips(found.names);
    this.body.replaceChildren(found.groups ? drawGroups(found.groups, (group) => this._openGroup(group)) : drawRows(found.rows, this));
    this._drawPages(found);
    this.selection.draw();
    this.disk.refresh();
    this._mark();
  }

  _drawChips(names) {
    const chips = FILTERS.filter((name) => this.query[name]).map((name) =>
      h("button", { type: "button", class: "hw-small hw-filter", title: "Remove this filter", onclick: () => this.change({ [name]: "" }) }, `${name}: ${names[name] || this.query[name]}`, h("span", { "aria-hidden": "true" }, " ✕")));
    this.chips.replaceChildren(...chips);
  }

  _drawPages(found) {
    const to = (page) => () => this.change({ page: page ? String(page) : "" });
    const button = (label, page, usable) => h("button", { type: "button", class: "hw-small", disabled: !usable, onclick: to(page) }, label);
    this.pages.hidden = found.pages < 2 || Boolean(found.groups);
    this.pages.replaceChildren(button("‹ Newer page", found.page - 1, found.page > 0), h("span", {}, `page ${found.page + 1} of ${found.pages.toLocaleString("en")}`),
      button("Older page ›", found.page + 1, found.page + 1 < found.pages));
    if (this.query.sort && this.query.sort !== "at") {
      setText(this.pages.firstChild, "‹ Page before");
      setText(this.pages.lastChild, "Next page ›");
    }
  }

  _openGroup(group) {
    this.change({ [this.query.group]: group.filter, group: "" });
  }

  sortBy(name) {
    const same = (this.query.sort || "at") === name;
    const descending = same ? this.query.desc === "0" : !COLUMNS.find((column) => column.name === name).text;
    this.change({ sort: name === "at" ? "" : name, desc: descending ? "" : "0" });
  }

  open(row) {
    window.location.href = `/live?run=${encodeURIComponent(row.id)}`;
  }

  _key(event) {
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
      return;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.rows.length) {
      event.preventDefault();
      this.current = Math.max(0, Math.min(this.rows.length - 1, this.current + step));
      this._mark(true);
    } else if (this.rows[this.current] && event.key === "x") {
      this.selection.toggle(this.rows[this.current]);
    } else if (this.rows[this.current] && event.key === "Enter" && event.target === document.body) {
      this.open(this.rows[this.current]);
    }
  }

  _mark(scroll = false) {
    this.body.querySelectorAll("tr.current").forEach((row) => row.classList.remove("current"));
    const row = this.body.querySelectorAll("tbody tr[data-run]")[this.current];
    if (!row) return;
    row.classList.add("current");
    if (scroll) row.scrollIntoView({ block: "nearest" });
  }
}

function fromAddress() {
  return Object.fromEntries([...new URLSearchParams(window.location.search)].filter(([name, value]) =>
    value && ["q", "regex", "sort", "desc", "group", "trashed", "page", ...FILTERS].includes(name)));
}
