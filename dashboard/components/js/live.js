// The controller of the Live page: one EventSource, the run's state, the step that is shown, playing. Draws nothing.
//
// Views call `on(listener)` and get the set of things that changed: run, status, steps, cursor, node. Events that come
// in one frame are taken one by one but announced together, so a fast run costs one redraw a frame and loses no step.

import { RunState } from "./store.js";

const SHORTEST_MS = 30;
const LONGEST_MS = 4000;

export class Live {
  constructor({ root = "", open = null, later = null } = {}) {
    this.root = root; // where Headway's routes start
    this._open = open || ((url) => new EventSource(url));
    this._later = later || ((call) => {
      // A hidden tab gets no animation frames; it must catch up all the same.
      if (document.hidden) setTimeout(call, 50);
      else requestAnimationFrame(call);
    });
    this.run = null;
    this.previous = null; // {figures, request} of the run before, for comparison
    this.notice = null; // a sentence about the form, e.g. a request that was refused
    this.unstored = null; // a sentence while runs wait in memory for a database that is away
    this.cursor = -1;
    this.follow = true;
    this.playing = false;
    this.speed = 1;
    this.node = null; // column picked by a person; null: choose one that says something
    this._source = null;
    this._timer = null;
    this._listeners = [];
    this._changed = new Set();
    this._scheduled = false;
  }

  on(listener) {
    this._listeners.push(listener);
    listener(new Set(["run", "status", "steps", "cursor", "node"]), this);
  }

  get step() {
    return this.run && this.cursor >= 0 ? this.run.steps[this.cursor] : null;
  }

  get last() {
    return this.run ? this.run.steps.length - 1 : -1;
  }

  /** Shows a run from its first event on. The one shown before stays as the comparison. */
  show(runId, request) {
    this.notice = null;
    if (this.run && this.run.runId === runId) {
      this._tell("status");
      return;
    }
    if (this.run && this.run.steps.length) {
      this.previous = { figures: this.run.figures(), request: this.run.request };
    }
    this.close();
    this.pause();
    this.run = runId ? new RunState(runId, request) : null;
    this.cursor = -1;
    this.node = null;
    this.follow = true;
    this._tell("run", "status", "steps", "cursor", "node");
    if (runId) this.connect();
  }

  setUnstored(sentence) {
    if (this.unstored === sentence) return;
    this.unstored = sentence;
    this._tell("status");
  }

  complain(sentence) {
    this.notice = sentence;
    this._tell("status");
  }

  connect() {
    if (!this.run || this.run.over || this._source) return;
    const run = this.run;
    const id = encodeURIComponent(run.runId);
    const source = this._open(`${this.root}/headway/runs/${id}/events?after=${run.lastSeq}`);
    this._source = source;
    source.onmessage = (message) => this._take(run, JSON.parse(message.data));
    source.addEventListener("end", () => this.close());
    source.onerror = () => {
      // The browser reconnects by itself with Last-Event-ID; only a refused stream is over for good.
      if (source.readyState === 2 && this._source === source) {
        this.close();
        this._timer2 = setTimeout(() => this.connect(), 2000);
      }
    };
  }

  close() {
    clearTimeout(this._timer2);
    if (this._source) this._source.close();
    this._source = null;
  }

  /** Hidden tabs give their connection back (a browser has six a host) and catch up when they are seen again. */
  visibility(hidden) {
    if (hidden) this.close();
    else this.connect();
  }

  async stop() {
    if (!this.run || this.run.over) return;
    await fetch(`${this.root}/headway/runs/${encodeURIComponent(this.run.runId)}/cancel`, { method: "POST" });
  }

  /** Waits no longer for whoever has the device: the engine decodes beside it, on the CPU. */
  async share() {
    if (!this.run || this.run.over) return;
    await fetch(`${this.root}/headway/runs/${encodeURIComponent(this.run.runId)}/share`, { method: "POST" });
  }

  _take(run, event) {
    if (run !== this.run || !run.apply(event)) return;
    if (RunState.isLast(event)) this.close();
    if (event.kind === "step") this._tell("steps");
    else this._tell("status");
  }

  _tell(...what) {
    what.forEach((name) => this._changed.add(name));
    if (this._scheduled) return;
    this._scheduled = true;
    this._later(() => {
      this._scheduled = false;
      const changed = this._changed;
      this._changed = new Set();
      if (changed.has("steps") && this.follow && this.cursor !== this.last) {
        this.cursor = this.last;
        this.node = null;
        changed.add("cursor");
        changed.add("node");
      }
      for (const listener of this._listeners) listener(changed, this);
    });
  }

  // --- which step is shown -------------------------------------------------------------------------------------

  go(index, { keepPlaying = false } = {}) {
    if (!this.run || this.last < 0) return;
    if (!keepPlaying) this.pause();
    const bounded = Math.max(0, Math.min(this.last, index));
    this.follow = false;
    if (bounded !== this.cursor) {
      this.cursor = bounded;
      this.node = null;
    }
    this._tell("cursor", "node");
  }

  back() {
    this.go(this.cursor - 1);
  }

  forward() {
    this.go(this.cursor + 1);
  }

  followLive() {
    this.pause();
    this.follow = true;
    this.cursor = this.last;
    this.node = null;
    this._tell("cursor", "node");
  }

  pick(column) {
    this.node = column;
    this._tell("node");
  }

  // --- playing, at the measured pace times the speed ------------------------------------------------------------

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.run || this.last < 0) return;
    if (this.cursor >= this.last && this.run.over) this.go(0);
    this.playing = true;
    this.follow = false;
    this._tell("cursor");
    this._next();
  }

  pause() {
    clearTimeout(this._timer);
    if (this.playing) {
      this.playing = false;
      this._tell("cursor");
    }
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.playing) {
      clearTimeout(this._timer);
      this._next();
    }
    this._tell("cursor");
  }

  _next() {
    const step = this.step;
    const wait = step ? Math.max(SHORTEST_MS, Math.min(LONGEST_MS, step.step_ms / this.speed)) : SHORTEST_MS;
    this._timer = setTimeout(() => {
      if (this.cursor < this.last) this.go(this.cursor + 1, { keepPlaying: true });
      else if (this.run.over) {
        this.pause();
        return;
      }
      if (this.playing) this._next();
    }, wait);
  }
}
