// The page's one connection: who has the device, the list of jobs, and what happens to the jobs and the run it shows.
//
// Topics are added and dropped at any time; the connection is then opened again from where each of them stands, so that
// nothing is lost and a page never holds two of the six connections a browser has for this host.

import { JobState } from "./jobs.js";

const AGAIN_MS = 2000;

export class Feed {
  constructor({ open = null, later = null } = {}) {
    this._open = open || ((url) => new EventSource(url));
    this._later = later || ((call) => setTimeout(call, 0));
    this.status = null; // {holder, running, queued, loaded_target, device}
    this.machine = null; // memory and load, when the engine tells
    this.jobs = null; // rows of open jobs in the queue's order, then of ended ones; null until known
    this.trouble = null; // one sentence while the database can't be read
    this.connected = false;
    this._source = null;
    this._timer = null;
    this._scheduled = false;
    this._jobs = new Map(); // id -> JobState
    this._runs = new Map(); // id -> RunSource
    this._listeners = [];
    this._wanted = false;
  }

  /** `listener(changed, feed)` with a set of status, machine, jobs, trouble, connected; called once at once. */
  on(listener) {
    this._listeners.push(listener);
    listener(new Set(["status", "machine", "jobs", "trouble", "connected"]), this);
    this.connect();
    return () => { this._listeners = this._listeners.filter((other) => other !== listener); };
  }

  /** Follows a job; the same state for everyone who asks. Call `release()` of what is returned by `on` to stop. */
  job(id) {
    let state = this._jobs.get(id);
    if (!state) {
      state = new JobState(id, () => {
        this._jobs.delete(id);
        this._reopen();
      });
      this._jobs.set(id, state);
      this._reopen();
    }
    return state;
  }

  /** What an EventSource of `/headway/runs/ID/events?after=N` would be, over this page's connection. */
  openRun(url) {
    const address = new URL(url, window.location.href);
    const id = decodeURIComponent(address.pathname.split("/")[3]);
    const source = new RunSource(id, Number(address.searchParams.get("after") || 0), () => {
      if (this._runs.get(id) !== source) return;
      this._runs.delete(id);
      this._reopen();
    });
    this._runs.set(id, source);
    this._reopen();
    return source;
  }

  connect() {
    this._wanted = true;
    if (this._source || document.hidden) return;
    clearTimeout(this._timer);
    const source = this._open(`/headway/events?${this._query()}`);
    this._source = source;
    source.onopen = () => this._connection(true);
    source.onmessage = (message) => this._take(JSON.parse(message.data));
    source.onerror = () => {
      this._connection(false);
      // The browser reconnects by itself with Last-Event-ID; only a refused stream has to be asked for again.
      if (source.readyState !== 2 || this._source !== source) return;
      this._source = null;
      this._timer = setTimeout(() => this.connect(), AGAIN_MS);
    };
  }

  close() {
    clearTimeout(this._timer);
    if (this._source) this._source.close();
    this._source = null;
  }

  /** Hidden tabs give their connection back and catch up when they are seen again. */
  visibility(hidden) {
    if (hidden) this.close();
    else if (this._wanted) this.connect();
  }

  /** Asks the server to do something; gives its answer. Throws an Error with one sentence. */
  async ask(path, values) {
    const options = values === undefined ? {} : { method: "POST", body: JSON.stringify(values), headers: { "content-type": "application/json" } };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw new Error("Headway does not answer; is it still running?");
    }
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(found.error || found.detail || `Headway answered ${answer.status}.`);
    return found;
  }

  /** stop, pause, resume, move {before}, delete, annotate; the list of jobs follows by itself. */
  act(jobId, action, values = {}) {
    return this.ask(`/headway/jobs/${encodeURIComponent(jobId)}/${action}`, values);
  }

  _query() {
    const query = new URLSearchParams();
    const at = new URLSearchParams();
    for (const [id, state] of this._jobs) {
      query.append("job", id);
      if (state.position) at.set(`job:${id}`, state.position);
    }
    for (const [id, run] of this._runs) {
      query.append("run", id);
      at.set(`run:${id}`, String(run.after));
    }
    if (at.size) query.set("at", at.toString());
    return query.toString();
  }

  _reopen() {
    if (this._scheduled) return;
    this._scheduled = true;
    this._later(() => {
      this._scheduled = false;
      this.close();
      this.connect();
    });
  }

  _take({ topic, kind, data }) {
    if (topic === "now") {
      this[kind] = data;
      this._tell(kind);
      return;
    }
    const id = topic.slice(4);
    if (topic.startsWith("job:")) this._jobs.get(id)?.take(kind, data);
    else this._runs.get(id)?.take(kind, data);
  }

  _connection(connected) {
    if (this.connected === connected) return;
    this.connected = connected;
    this._tell("connected");
  }

  _tell(what) {
    for (const listener of this._listeners) listener(new Set([what]), this);
  }
}

/** As much of an EventSource as the Live page's controller needs. */
class RunSource {
  constructor(id, after, closed) {
    this.id = id;
    this.after = after;
    this.readyState = 1;
    this.onmessage = null;
    this.onerror = null;
    this._closed = closed;
    this._ends = [];
  }

  addEventListener(name, listener) {
    if (name === "end") this._ends.push(listener);
  }

  take(kind, event) {
    if (kind === "end") {
      this._ends.forEach((listener) => listener());
      return;
    }
    if (event.seq) this.after = Math.max(this.after, event.seq);
    if (this.onmessage) this.onmessage({ data: JSON.stringify(event) });
  }

  close() {
    if (this.readyState === 2) return;
    this.readyState = 2;
    this._closed();
  }
}
