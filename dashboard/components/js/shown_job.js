// A page that shows one job of its kind and lists the others: which one, its card, when its data is asked for again, and
// what of a measurement stands above every figure. Knows no figure.

import { h, setText } from "./dom.js";
import { jobCard, jobList } from "./job_card.js";

/** Mounts a page made by `make(feed, gradio)`, an object with `node` and `take(value)`. */
export function mountPage(element, gradio, page) {
  element.replaceChildren(page.node);
  gradio.watch("value", () => page.take(gradio.props.value));
  page.take(gradio.props.value);
}

/**
 * To derive from. A page gives `kind` (or several), `title` of the list, `quietestMs` between questions, and `step(done)`: what of the
 * progress has to change before it asks again. It has `welcome` and `shown`, puts `card`, `notes`, `conditions`, `csv` and
 * `json` where it likes, and says `reset()`, `async load(id)` and, where it has files to fetch, `addresses(id)` -> {csv, json}.
 */
export class ShownJob {
  constructor(feed, { kind, title, quietestMs, step }) {
    this.feed = feed;
    this.id = null;
    this.at = null;
    this._quietestMs = quietestMs;
    this._step = step;
    this._asked = "";
    this._timer = null;
    this._last = 0;
    this._card = null;
    this.problem = h("p", { class: "hw-banner", "data-kind": "error", role: "alert", hidden: true });
    this.card = h("ul", { class: "hw-jobs" });
    this.notes = h("ul", { class: "hw-evaluation-notes" });
    this.conditions = h("p", { class: "hw-conditions" });
    this.csv = h("a", { class: "hw-small" }, "CSV");
    this.json = h("a", { class: "hw-small" }, "JSON");
    const kinds = [kind].flat();
    this.others = null;
    this.list = h("section", { class: "hw-card", hidden: true }, h("h3", {}, title));
    this.others = jobList(feed, (row) => kinds.includes(row.kind), () => this._drawOthers());
    this.list.append(this.others.node);
    this._drawOthers();
    feed.on((changed) => { if (changed.has("jobs")) this._follow(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this._follow(); });
  }

  take(value) {
    if (!value || value.at === this.at) return;
    this.at = value.at;
    this.complain(value.error);
    if (!value.error) this.show(value.job);
    this.welcome.hidden = this.id !== null || Boolean(value.job);
  }

  show(id) {
    if (id === this.id) return;
    this.id = id;
    this._asked = "";
    this._card = null;
    this.reset();
    this.card.replaceChildren();
    this.shown.hidden = !id;
    const address = new URL(window.location.href);
    if (id) address.searchParams.set("job", id);
    else address.searchParams.delete("job");
    window.history.replaceState(null, "", address);
    this._drawOthers();
    if (!id) return;
    Object.assign(this.csv, { href: this.addresses(id).csv });
    Object.assign(this.json, { href: this.addresses(id).json });
    this._load();
  }

  addresses() {
    return { csv: "", json: "" };
  }

  complain(sentence) {
    setText(this.problem, sentence || "");
    this.problem.hidden = !sentence;
  }

  /** The job's card and the conditions of its numbers; `badge` is {text, kind, why} or null. */
  drawHead(data, badge) {
    this._drawCard(this._row() || data.job);
    this.notes.replaceChildren(...data.notes.map((note) => h("li", {}, note)));
    const mark = badge ? h("span", { class: `hw-badge ${badge.kind}`, title: badge.why }, badge.text) : null;
    this.conditions.replaceChildren(...[mark, ...data.conditions.map((text) => h("span", {}, text))].filter(Boolean));
  }

  /** The list of jobs has changed: bring the card up to date, and the data when the job has come further. */
  _follow() {
    const row = this._row();
    if (!row || document.hidden) return;
    this._drawCard(row);
    const place = `${row.status} ${row.attempt} ${row.progress ? this._step(row.progress.done) : ""}`;
    if (place === this._asked) return;
    this._asked = place;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._load(), Math.max(0, this._last + this._quietestMs - performance.now()));
  }

  _row() {
    return this.id && (this.feed.jobs || []).find((row) => row.id === this.id);
  }

  async _load() {
    if (!this.id) return;
    this._last = performance.now();
    await this.load(this.id);
  }

  _drawCard(row) {
    if (!this._card) {
      this._card = jobCard(this.feed, row);
      this.card.replaceChildren(this._card.node);
    }
    this._card.update(row);
  }

  /** The list without the one that is shown above it. */
  _drawOthers() {
    if (!this.others) return; // the list draws itself before it is handed over
    let count = 0;
    for (const card of this.others.node.children) {
      card.hidden = card.dataset.job === this.id;
      count += !card.hidden;
    }
    this.list.hidden = count === 0;
  }
}
