// The controller of the Train page: which job is shown, its curves and its record. Draws nothing.
//
// Views call `on(listener)` and get the set of things that changed: job (another one is shown), record, metrics, items.

import { Metrics } from "./metrics.js";

class Trainer {
  constructor(feed) {
    this.feed = feed;
    this.id = null;
    this.job = null; // the record, as the server tells it
    this.metrics = new Metrics();
    this.error = null;
    this.charts = null;
    this._leave = null;
    this._listeners = [];
  }

  on(listener) {
    this._listeners.push(listener);
    listener(new Set(["job", "record", "metrics"]), this);
  }

  /** Shows a job from its first point on; null shows none. The address follows, so that a reload finds it again. */
  show(id) {
    if (id === this.id) return;
    if (this._leave) this._leave();
    this._leave = null;
    this.id = id;
    this.job = null;
    this.error = null;
    this.metrics = new Metrics();
    document.body.classList.toggle("hw-has-job", Boolean(id));
    address(id);
    this._tell("job", "record", "metrics");
    if (id) this._leave = this.feed.job(id).on((changed, state, fresh) => this._take(changed, state, fresh));
  }

  _take(changed, state, fresh) {
    const said = [];
    if (changed.has("job")) {
      this.job = state.job;
      said.push("record");
    }
    if (state.error !== this.error) {
      this.error = state.error;
      said.push("record");
    }
    if (changed.has("metrics")) {
      if (fresh.trimmed !== null) this.metrics.cut(fresh.trimmed);
      this.metrics.take(fresh.rows);
      said.push("metrics");
    }
    if (said.length) this._tell(...said);
  }

  _tell(...what) {
    const changed = new Set(what);
    for (const listener of this._listeners) listener(changed, this);
  }
}

function address(id) {
  const url = new URL(window.location.href);
  if ((url.searchParams.get("job") || null) === id) return;
  if (id) url.searchParams.set("job", id);
  else url.searchParams.delete("job");
  window.history.pushState(null, "", url);
}

let one = null;

/** The page's controller; all its views share it. */
export function trainer(feed) {
  if (!one) {
    one = new Trainer(feed);
    if (window.headway) window.headway.train = one;
    window.addEventListener("popstate", () => one.show(new URLSearchParams(window.location.search).get("job")));
  }
  return one;
}
