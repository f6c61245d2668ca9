// The Versions page: every version of a target with its parent, labels, notes and drafters; a new one by path or hub id;
// whether the files are still those that were registered; what differs between two. What is compared stands in the address.

import { h, setText } from "../dom.js";
import { ago } from "../job_card.js";
import { percent } from "../text.js";

const LOOK_MS = 400;
const STATES = { there: "files as registered", changed: "files changed", gone: "files gone", elsewhere: "read anew at each load" };

export function mount(element, feed) {
  const page = new Page(feed);
  element.replaceChildren(page.node);
  page.open();
}

class Page {
  constructor(feed) {
    this.feed = feed;
    this.versions = [];
    this.states = new Map(); // version or drafter id -> {state, sentence, moved}
    this.source = h("input", { type: "text", placeholder: "folder, GGUF file or hub id", "aria-label": "Target to register" });
    this.add = h("button", { type: "submit", class: "hw-small" }, "Register");
    this.form = h("form", { class: "hw-ver-form", onsubmit: (event) => { event.preventDefault(); this.register(); } }, this.source, this.add);
    this.check = h("button", { type: "button", class: "hw-small", onclick: () => this.checkFiles(), title: "Compares the hash of every file with what was registered; a target's files are read again where their size or time changed" }, "Check files");
    this.first = h("select", { "aria-label": "Version before" });
    this.second = h("select", { "aria-label": "Version after" });
    this.diff = h("button", { type: "button", class: "hw-small", onclick: () => this.compare() }, "What changed");
    this.between = h("span", { class: "hw-ver-form" }, this.first, h("span", {}, "→"), this.second, this.diff);
    this.said = h("span", { class: "hw-muted", role: "status" });
    this.problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
    this.bar = h("section", { class: "hw-card hw-ver-bar" }, this.form, this.check, h("span", { class: "hw-grow" }), this.between, this.said, this.problem);
    this.changes = h("section", { class: "hw-card hw-ver-changes", hidden: true, tabindex: "-1" });
    this.watched = h("section", { class: "hw-card hw-ver-watch", hidden: true });
    this.list = h("div", { class: "hw-ver-list" });
    this.empty = h("section", { class: "hw-card hw-welcome", hidden: true }, h("h1", {}, "No version yet"),
      h("p", {}, "A version is one frozen target: weights, adapter, quantisation, tokenizer and chat template. It is registered when a target is first loaded, or here, by its folder or hub id."));
    this.node = h("div", { class: "hw-ver" }, this.bar, this.changes, this.watched, this.empty, this.list);
  }

  load() {
    return this.attempt(async () => this.take(await this.feed.ask("/headway/versions")));
  }

  /** The list, then the comparison that stands in the address. */
  async open() {
    await this.load();
    const query = new URLSearchParams(window.location.search);
    if (query.get("first") && query.get("second")) {
      this.first.value = query.get("first");
      this.second.value = query.get("second");
      this.compare();
    }
  }

  take({ versions, watch }) {
    this.versions = versions;
    if (watch !== undefined) this.watched.replaceChildren(...drawWatch(watch));
    this.watched.hidden = !this.watched.childElementCount;
    this.empty.hidden = versions.length > 0;
    this.check.hidden = !versions.length;
    this.between.hidden = versions.length < 2;
    const kept = this.first.value === this.second.value ? ["", ""] : [this.first.value, this.second.value];
    for (const select of [this.first, this.second]) select.replaceChildren(...versions.map((one) => h("option", { value: one.id }, nameOf(one))));
    const young = versions.find((one) => one.parent);
    this.first.value = kept[0] || (young ? young.parent.id : versions.at(-1)?.id) || "";
    this.second.value = kept[1] || (young || versions[0])?.id || "";
    this.list.replaceChildren(...versions.map((one) => this.card(one)));
  }

  async attempt(work) {
    this.problem.hidden = true;
    try {
      await work();
    } catch (error) {
      setText(this.problem, error.message);
      this.problem.hidden = false;
    }
  }

  /** Work that reads files: asked for, then looked after until it is over. */
  async task(action, values, words) {
    let result = null;
    setText(this.said, words);
    for (const button of [this.add, this.check, this.diff]) button.disabled = true;
    await this.attempt(async () => {
      const { task } = await this.feed.ask(`/headway/versions/${action}`, values);
      for (;;) {
        const found = await this.feed.ask(`/headway/versions/tasks/${task}`);
        if (found.state === "done") {
          result = found.result;
          break;
        }
        if (found.state !== "running") throw new Error(found.error || "That was stopped.");
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    });
    for (const button of [this.add, this.check, this.diff]) button.disabled = false;
    setText(this.said, "");
    return result;
  }

  async register() {
    const made = await this.task("register", { source: this.source.value }, "Reading the target's files…");
    if (!made) return;
    this.source.value = "";
    await this.load();
    setText(this.said, made.known ? "This version was registered before." : "Registered.");
    this.list.querySelector(`[data-version="${CSS.escape(made.id)}"]`)?.scrollIntoView({ block: "nearest" });
  }

  async checkFiles() {
    const found = await this.task("check", {}, "Checking the files…");
    if (!found) return;
    this.states.clear();
    for (const one of found) for (const each of [one, ...one.drafters]) this.states.set(each.id, each);
    const bad = [...this.states.values()].filter((one) => one.state === "changed" || one.state === "gone").length;
    setText(this.said, bad ? `${bad} of ${this.states.size} places no longer hold what was registered.` : "All files are as they were registered.");
    this.take({ versions: this.versions });
  }

  async compare() {
    const [first, second] = [this.first.value, this.second.value];
    if (first === second) {
      setText(this.problem, "Choose two different versions.");
      this.problem.hidden = false;
      return;
    }
    const query = new URLSearchParams({ first, second });
    window.history.replaceState(null, "", `${window.location.pathname}?${query}`);
    const found = await this.task("diff", { first, second }, "Comparing the weights, tensor by tensor…");
    if (!found) return;
    const named = (id) => nameOf(this.versions.find((one) => one.id === id) || { label: id, labels: [] });
    this.changes.replaceChildren(...drawChanges(found, named(first), named(second)));
    this.changes.hidden = false;
    this.changes.scrollIntoView({ block: "nearest" });
  }

  send(action, values) {
    return this.attempt(async () => this.take(await this.feed.ask(`/headway/versions/${action}`, values)));
  }

  card(one) {
    const label = h("input", { type: "text", placeholder: "label", "aria-label": `New label of ${one.label}`, maxlength: "40", size: "10" });
    const labels = one.labels.map((text) => h("button", { type: "button", class: "hw-run-tag hw-ver-label", title: "Take this label away", onclick: () => this.send("unlabel", { id: one.id, label: text }) }, text, h("span", { "aria-hidden": "true" }, " ✕")));
    const add = h("form", { class: "hw-ver-add", onsubmit: (event) => { event.preventDefault(); if (label.value.trim()) this.send("label", { id: one.id, label: label.value }); } }, label, h("button", { type: "submit", class: "hw-small", title: "A label stands on one version at a time" }, "Add label"));
    const notes = h("textarea", { rows: "2", "aria-label": `Notes on ${one.label}`, placeholder: "What you want to remember about this version" });
    notes.value = one.notes;
    const save = h("button", { type: "button", class: "hw-small", hidden: true, onclick: () => this.send("note", { id: one.id, text: notes.value }) }, "Save the notes");
    notes.addEventListener("input", () => { save.hidden = notes.value === one.notes; });
    const parent = one.parent ? h("a", { href: `#version-${one.parent.id}` }, one.parent.label || one.parent.id) : "none known";
    const facts = [["made from", parent], ["lies in", one.source], ["family", `${one.model_type}, ${one.parameters.toLocaleString("en")} parameters`],
      ["hash of the weights", one.identity.weights], ["adapter", one.identity.adapter || "none"], ["quantisation", one.identity.quantisation || "none"],
      ["hash of the tokenizer", one.identity.tokenizer], ["hash of the chat template", one.identity.template || "none"]];
    const evaluations = one.evaluations.map((job) => h("a", { href: `/evaluate?job=${encodeURIComponent(job.id)}` }, job.name));
    return h("section", { class: "hw-card hw-ver-card", id: `version-${one.id}`, "data-version": one.id },
      h("div", { class: "hw-card-head" }, h("h3", {}, one.label), labels, h("span", { class: "hw-muted" }, `registered ${ago(one.at)}`), h("span", { class: "hw-grow" }), add),
      this.mark(one.id, one), h("dl", { class: "hw-ver-facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      notes, save, this.drafters(one),
      evaluations.length ? h("p", { class: "hw-muted hw-ver-evaluations" }, "Evaluations: ", evaluations.flatMap((link, at) => (at ? [", ", link] : [link]))) : null);
  }

  /** What a check of the files found; nothing before one. */
  mark(id, version = null) {
    const found = this.states.get(id);
    if (!found) return null;
    const use = version && found.moved ? h("button", { type: "button", class: "hw-small", onclick: async () => {
      if (await this.task("found", { id, source: found.moved }, "Making sure that it is the same version…")) await this.load().then(() => this.checkFiles());
    } }, "Use it from there") : null;
    return h("p", { class: "hw-ver-state", "data-state": found.state }, h("b", {}, STATES[found.state]), ` ${found.sentence} `, use);
  }

  drafters(one) {
    if (!one.drafters.length) return h("p", { class: "hw-muted" }, "No drafter of its own. Heads of another version are refused here unless forced. ", h("a", { href: "/train" }, "Train some"));
    return h("details", { class: "hw-equal hw-ver-drafters", open: one.drafters.some((drafter) => this.states.has(drafter.id) && this.states.get(drafter.id).state !== "there") },
      h("summary", {}, one.drafters.length === 1 ? "1 drafter" : `${one.drafters.length} drafters`),
      one.drafters.map((drafter) => h("div", { class: "hw-ver-drafter" }, h("b", {}, drafter.name), ` ${drafter.family}, weights ${drafter.weights}, `, ago(drafter.at), this.mark(drafter.id),
        h("dl", {}, h("dt", {}, "lies in"), h("dd", {}, drafter.path), drafter.lineage.map((fact) => [h("dt", {}, fact.name), h("dd", {}, fact.value)])))));
  }
}

function nameOf(version) {
  return version.labels.length ? `${version.label} (${version.labels.join(", ")})` : version.label;
}

/** What differs between two versions, as elements. */
export function drawChanges(found, first, second) {
  const parts = found.parts.length ? `${second} differs from ${first} in: ${found.parts.join(", ")}.` : `${second} and ${first} are the same version.`;
  const most = Math.max(1e-9, ...found.layers.map((layer) => layer.change));
  const layers = found.layers.map((layer) => h("tr", {}, h("th", { scope: "row" }, layer.name),
    h("td", { class: "hw-ver-bars" }, layer.change === 0 ? null : h("i", { style: `width:${(100 * layer.change / most).toFixed(1)}%` })),
    h("td", { class: "number" }, layer.change === 0 ? "equal" : percent(layer.change, layer.change < 0.001 ? 4 : 2)),
    h("td", { class: "number" }, `${layer.changed} of ${layer.tensors}`), h("td", {}, layer.reshaped ? `${layer.reshaped} of another shape` : "")));
  const pairs = (title, values) => (Object.keys(values).length ? [h("h4", {}, title), h("dl", { class: "hw-ver-pairs" }, Object.entries(values).map(([name, [before, after]]) => [h("dt", {}, name), h("dd", {}, `${words(before)} → ${words(after)}`)]))] : []);
  const lists = [["Tensors only before", found.only_first], ["Tensors only after", found.only_second], [`${found.num_tokens_added} new tokens`, found.tokens_added], [`${found.num_tokens_removed} tokens gone`, found.tokens_removed]]
    .filter(([, names]) => names.length).map(([title, names]) => [h("h4", {}, title), h("p", { class: "hw-ver-names" }, names.join("  "))]);
  return [h("h3", {}, "What changed"), h("p", { class: "hw-cmp-sentence" }, parts),
    layers.length ? h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-table" }, h("thead", {}, h("tr", {}, ["Weights", "", "Change", "Tensors changed", ""].map((title, at) => h("th", { class: at === 2 || at === 3 ? "number" : null }, title)))), h("tbody", {}, layers))) : null,
    h("p", { class: "hw-muted" }, "Change: the norm of the difference over the norm before, over all tensors of the layer."),
    lists, found.num_tokens_moved ? h("p", {}, `${found.num_tokens_moved} tokens have another id.`) : null, pairs("Special tokens", found.special), pairs("Settings of the model", found.settings),
    found.template.length ? [h("h4", {}, "Chat template"), h("pre", { class: "hw-log" }, found.template.join("\n"))] : null].flat(3).filter(Boolean);
}

/** What the newest watch for stale heads has seen; nothing where nobody watches. */
function drawWatch(watch) {
  if (!watch) return [];
  const rejected = watch.rejected ? `, ${watch.rejected.toLocaleString("en")} lines that were no requests` : "";
  const rows = watch.series.map((one) => h("tr", { class: one.alarmed ? "hw-far" : null },
    h("th", { scope: "row" }, one.drafter), h("td", {}, one.version), h("td", {}, one.domain || "all"),
    h("td", { class: "number" }, one.requests.toLocaleString("en")), h("td", { class: "number" }, one.recent === null ? "–" : one.recent.toFixed(2)),
    h("td", { class: "number" }, one.baseline === null ? "not yet" : one.baseline.toFixed(2)),
    h("td", { class: "number" }, one.lost === null ? "–" : `${one.lost > 0 ? "\u2212" : "+"}${percent(Math.abs(one.lost), 1)}`), h("td", {}, one.alarmed ? "▼ alarm" : one.lost === null ? "" : "✓ as before")));
  return [h("div", { class: "hw-card-head" }, h("h3", {}, "Do the drafters still fit?"), h("span", { class: "hw-muted" }, `${watch.requests.toLocaleString("en")} requests watched${rejected}, ${watch.status}`)),
    watch.alarms.length ? h("ul", { class: "hw-ver-alarms" }, watch.alarms.map((one) => h("li", {}, one.sentence, h("span", { class: "hw-muted" }, ` ${ago(one.at)}`)))) : h("p", { class: "hw-muted" }, "No alarm."),
    rows.length ? h("div", { class: "hw-table-scroll" }, h("table", { class: "hw-table" }, h("thead", {}, h("tr", {}, ["Drafter", "Version", "Domain", "Requests", "Tokens a step", "At first", "Change", ""].map((title, at) => h("th", { class: at > 2 && at < 7 ? "number" : null }, title)))), h("tbody", {}, rows))) : null].filter(Boolean);
}

function words(value) {
  if (value === null || value === undefined) return "none";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 240 ? `${text.slice(0, 239)}…` : text;
}
