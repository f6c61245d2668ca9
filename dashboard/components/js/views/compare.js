// The Compare page: two to six runs beside each other. What is compared stands in the address (side, ref, domain, t, batch,
// asked), so a reload or a link shows the same. Drawn by compare_view.js, which the report carries along.

import { drawComparison, drawPrompt } from "../compare_view.js";
import { h, setText } from "../dom.js";

const MOST = 6;
const NAMES = ["ref", "domain", "t", "batch", "asked"];

export function mount(element, feed) {
  const page = new Page(feed);
  element.replaceChildren(page.node);
  page.start();
  window.addEventListener("popstate", () => page.start());
}

class Page {
  constructor(feed) {
    this.feed = feed;
    this.query = new URLSearchParams();
    this.view = null;
    this.asking = 0;
    this.choices = { evaluations: [], tags: [] };
    this.picker = h("select", { "aria-label": "Add a run", onchange: () => this.add(this.picker.value) });
    this.all = h("select", { "aria-label": "Compare a whole evaluation", onchange: () => this.whole(this.all.value) });
    this.filters = h("span", { class: "hw-cmp-filters" });
    this.csv = h("a", { class: "hw-small" }, "CSV");
    this.json = h("a", { class: "hw-small" }, "JSON");
    this.html = h("a", { class: "hw-small", title: "One HTML file that needs nothing else" }, "Report");
    this.exports = h("span", { class: "hw-export" }, this.html, this.csv, this.json);
    this.bar = h("section", { class: "hw-card hw-cmp-tools" }, this.all, this.picker, this.filters, h("span", { class: "hw-grow" }), this.exports);
    this.problem = h("p", { class: "hw-banner", "data-kind": "error", role: "alert", hidden: true });
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "Which is better, on what, and how sure is that?"),
      h("p", {}, "Compares two to six runs on the prompts they have in common: drafters of one evaluation, evaluations of different model versions, or stored decode runs. ",
        "Every difference comes with its interval; nothing is called better that chance could explain."),
      h("p", {}, "Choose an evaluation or single runs above, or select rows on the ", h("a", { href: "/runs" }, "Runs page"), " and press “Side by side”."));
    this.panel = h("div", { class: "hw-cmp-prompt", hidden: true, tabindex: "-1" });
    this.body = h("div", { class: "hw-cmp" });
    this.node = h("div", { class: "hw-cmp" }, this.bar, this.problem, this.welcome, this.body);
  }

  get sides() {
    return this.query.getAll("side");
  }

  start() {
    this.query = new URLSearchParams(window.location.search);
    this.load();
    this.offer();
  }

  /** Changes the address and shows what it says; `null` takes a name away. */
  go(changes, sides = this.sides) {
    const next = new URLSearchParams(sides.map((side) => ["side", side]));
    for (const name of NAMES) {
      const value = name in changes ? changes[name] : this.query.get(name);
      if (value !== null && value !== undefined && value !== "") next.set(name, value);
    }
    this.query = next;
    window.history.pushState(null, "", `${window.location.pathname}${next.size ? `?${next}` : ""}`);
    this.load();
  }

  async offer() {
    try {
      this.choices = await this.feed.ask("/headway/compare/choices");
    } catch (error) {
      this.complain(error.message);
    }
    this.drawChoices();
  }

  drawChoices() {
    const { evaluations, tags } = this.choices;
    const several = evaluations.filter((one) => one.sides.length > 1);
    this.all.replaceChildren(h("option", { value: "" }, "Compare a whole evaluation…"), ...several.map((one) => h("option", { value: String(evaluations.indexOf(one)) }, one.name)));
    this.all.hidden = !several.length;
    const groups = evaluations.map((one) => h("optgroup", { label: one.name }, one.sides.map((side) => this.option(side.key, side.name))));
    const tagged = tags.length ? h("optgroup", { label: "Runs with a tag" }, tags.map((tag) => this.option(tag.key, `${tag.name} (${tag.runs} runs)`))) : null;
    this.picker.replaceChildren(h("option", { value: "" }, this.sides.length ? "Add a run…" : "Choose a run…"), ...[...groups, tagged].filter(Boolean));
    this.picker.disabled = this.sides.length >= MOST || !(groups.length || tagged);
    this.picker.title = this.sides.length >= MOST ? `At most ${MOST} runs` : "";
  }

  option(key, name) {
    return h("option", { value: key, disabled: this.sides.includes(key) }, name);
  }

  add(key) {
    if (key && !this.sides.includes(key)) this.go({}, [...this.sides, key]);
    this.drawChoices();
  }

  whole(place) {
    const chosen = this.choices.evaluations[Number(place)];
    if (place === "" || !chosen) return;
    this.go({ ref: null, domain: null, t: null, batch: null, asked: null }, chosen.sides.slice(0, MOST).map((side) => side.key));
    this.drawChoices();
  }

  complain(text) {
    setText(this.problem, text || "");
    this.problem.hidden = !text;
  }

  async load() {
    const asking = ++this.asking;
    const count = this.sides.length;
    this.welcome.hidden = count > 0;
    this.exports.hidden = true;
    this.complain(null);
    if (count < 2) {
      this.body.replaceChildren(...(count ? [h("p", { class: "hw-nothing" }, "One run is chosen; add another one to compare it with.")] : []));
      this.filters.replaceChildren();
      this.drawChoices();
      return;
    }
    try {
      const view = await this.feed.ask(`/headway/compare?${this.query}`);
      if (asking !== this.asking) return;
      this.view = view;
      this.draw();
    } catch (error) {
      if (asking !== this.asking) return;
      this.body.replaceChildren();
      this.filters.replaceChildren();
      this.complain(error.message);
    }
    this.drawChoices();
  }

  draw() {
    const { view } = this;
    for (const [link, form] of [[this.csv, "csv"], [this.json, "json"], [this.html, "html"]]) link.href = `/headway/compare.${form}?${this.query}`;
    this.exports.hidden = false;
    this.filters.replaceChildren(
      this.filter("domain", "All domains", view.domains.map((one) => [one, one])),
      this.filter("t", "All temperatures", view.temperatures.map((one) => [String(one), `T = ${one}`])),
      this.filter("batch", "Smallest batch", view.batches.map((one) => [String(one), one === 1 ? "one row" : `${one} rows`])));
    this.panel.hidden = true;
    this.body.replaceChildren(...drawComparison(view, {
      picked: this.query.get("asked"),
      panel: this.panel,
      open: (asked) => this.open(asked),
      reference: (at) => this.go({ ref: at || null }),
      remove: (at) => this.go({ ref: null, asked: null }, this.sides.filter((_, side) => side !== at)),
    }));
    const asked = this.query.get("asked");
    if (asked) this.show(asked);
  }

  filter(name, empty, values) {
    if (values.length < 2) return "";
    const select = h("select", { "aria-label": name === "t" ? "Temperature" : name === "batch" ? "Rows at once" : "Domain", onchange: () => this.go({ [name]: select.value, asked: null }) },
      h("option", { value: "" }, empty), values.map(([value, text]) => h("option", { value }, text)));
    select.value = this.query.get(name) || "";
    return select;
  }

  /** A prompt was chosen: the address names it, nothing else is drawn again. */
  open(asked) {
    this.query.set("asked", asked);
    window.history.replaceState(null, "", `${window.location.pathname}?${this.query}`);
    this.body.querySelectorAll(".hw-cmp-chart [data-asked]").forEach((dot) => dot.classList.toggle("picked", dot.dataset.asked === asked));
    this.show(asked);
  }

  async show(asked) {
    const asking = this.asking;
    try {
      const found = await this.feed.ask(`/headway/compare/prompt?${this.query}`);
      if (asking !== this.asking || this.query.get("asked") !== asked) return;
      this.panel.replaceChildren(...drawPrompt(found, this.view.reference));
    } catch (error) {
      this.panel.replaceChildren(h("p", { class: "hw-problem", role: "alert" }, error.message));
    }
    this.panel.hidden = false;
    this.panel.scrollIntoView({ block: "nearest" });
  }
}
