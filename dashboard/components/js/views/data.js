// The Data page: bring a file, see what it holds, split it, compare it with evaluation sets, look at its tokens, distil.
// This is its layout and its controller; the parts draw themselves when `sets` or `shown` change.

import { h, setText } from "../dom.js";
import { jobList } from "../job_card.js";
import { bringCard } from "./data_bring.js";
import { leakCard, splitCard } from "./data_checks.js";
import { distillCard } from "./data_distill.js";
import { maskCard } from "./data_mask.js";
import { overviewCard } from "./data_overview.js";
import { setList } from "./data_sets.js";

export class DataPage {
  constructor(feed) {
    this.feed = feed;
    this.sets = null; // rows of all data sets, the newest first; null until known
    this.shown = null; // the chosen one with its counts and first rows
    this.maxUpload = 0;
    this.own = false; // whether Headway's own prompts can be brought
    this._listeners = [];
    this._wanted = null;
  }

  /** `listener(changed, page)` with a set of sets, shown; called once at once. */
  on(listener) {
    this._listeners.push(listener);
    listener(new Set(["sets", "shown"]), this);
  }

  async load() {
    const found = await this.feed.ask("/headway/data/sets");
    this.sets = found.sets;
    this.maxUpload = found.max_upload;
    this.own = found.own;
    this._tell("sets");
  }

  /** Shows a data set and keeps it in the page's address; null shows none. */
  async choose(id) {
    this._wanted = id;
    const found = id ? await this.feed.ask(`/headway/data/sets/${encodeURIComponent(id)}`) : null;
    if (this._wanted !== id) return; // another one was chosen meanwhile
    this.show(found);
    const address = new URL(window.location.href);
    if (id) address.searchParams.set("set", id);
    else address.searchParams.delete("set");
    window.history.replaceState(null, "", address);
  }

  show(found) {
    this.shown = found;
    this._tell("shown");
  }

  /** Starts work on the server and waits for its result; `tell(fraction or null)` on the way. Throws one sentence. */
  async work(path, values, tell = () => {}) {
    const { task } = await this.feed.ask(path, values);
    return this.finished(task, tell);
  }

  async finished(task, tell = () => {}) {
    for (let wait = 80; ; wait = Math.min(1000, wait * 1.4)) {
      const now = await this.feed.ask(`/headway/data/tasks/${task}`);
      tell(now.fraction);
      if (now.state === "done") return now.result;
      if (now.state !== "running") throw new Error(now.error || "Stopped.");
      await new Promise((go) => { setTimeout(go, wait); });
    }
  }

  /** After something was brought or made: the list again, and that data set. */
  async brought(id) {
    await this.load();
    await this.choose(id);
  }

  _tell(what) {
    for (const listener of this._listeners) listener(new Set([what]), this);
  }
}

export function mount(element, feed) {
  const page = new DataPage(feed);
  window.headway.data = page;
  const trouble = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const failed = (error) => {
    setText(trouble, error ? error.message : "");
    trouble.hidden = !error;
  };
  const chosen = h("div", { class: "hw-data-chosen", hidden: true },
    overviewCard(page, failed), maskCard(page), h("div", { class: "hw-data-pair" }, splitCard(page), leakCard(page)));
  const empty = emptyCard(page, failed);
  const distil = h("div", { class: "hw-data-distil" }, distillCard(page), jobsCard(feed));
  element.replaceChildren(h("div", { class: "hw-data" },
    h("div", { class: "hw-data-side" }, bringCard(page), setList(page, failed)),
    h("div", { class: "hw-data-stage" }, trouble, empty, chosen, distil)));

  page.on(() => {
    chosen.hidden = !page.shown;
    empty.hidden = page.sets === null || page.sets.length > 0;
    distil.hidden = !page.sets || !page.sets.some((one) => one.kind === "prompts");
  });
  const first = new URLSearchParams(window.location.search).get("set");
  const start = async () => {
    try {
      await page.load();
      const id = first || (page.sets.length ? page.sets[0].id : null);
      if (id) await page.choose(id);
    } catch (error) {
      failed(error);
    }
  };
  start();

  // A distillation that ends brings a new data set.
  let seen = null;
  feed.on((changed) => {
    if (!changed.has("jobs") || !feed.jobs) return;
    const now = JSON.stringify(feed.jobs.filter((job) => job.kind === "distill").map((job) => [job.id, job.status]));
    if (seen !== null && now !== seen) page.load().catch(failed);
    seen = now;
  });
}

function emptyCard(page, failed) {
  const button = h("button", { type: "button", class: "hw-primary", "data-action": "own" }, "Start with Headway's own prompts");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const result = await page.work("/headway/data/bring", { own: true });
      failed(null);
      await page.brought(result.id);
    } catch (error) {
      failed(error);
    }
    button.disabled = false;
  });
  page.on(() => { button.hidden = !page.own; });
  return h("section", { class: "hw-card hw-data-empty", hidden: true },
    h("h2", {}, "Prompts become training data here"),
    h("p", {}, "Draft heads learn best from your model's own answers. Bring prompts that look like what it will be asked; the model then answers them, and the answers are what heads are trained on."),
    h("div", { class: "hw-actions" }, button));
}

function jobsCard(feed) {
  const box = h("section", { class: "hw-card hw-joblist", hidden: true }, h("h3", {}, "Distillations"));
  const list = jobList(feed, (row) => row.kind === "distill", (count) => { box.hidden = count === 0; });
  box.append(list.node);
  return box;
}
