// The controller of a race: a run's controller for each lane, and one moment that all lanes are shown at. Draws nothing.
//
// A moment is a time on the lanes' own clocks, which count their own steps only. While it is null the newest is shown;
// else each lane shows the steps that its clock had finished by then, so a replay shows the race as it was: with all
// lanes computing side by side, each at its own pace.

import { Live } from "./live.js";

const TICK_MS = 40;

export class Race {
  constructor({ open, later = null } = {}) {
    this._open = open;
    this._later = later;
    this.id = null;
    this.lanes = [];
    this.missing = [];
    this.standing = null; // see backend/analysis/standing.py; null while lanes go on
    this.time = null; // ms; null: the newest
    this.playing = false;
    this.speed = 1;
    this._timer = null;
    this._listeners = [];
  }

  /** `listener(changed)` with a set of race, lanes, time, standing; called whenever something changed. */
  on(listener) {
    this._listeners.push(listener);
  }

  /** Shows a race, as the server tells it: {race, lanes: [{letter, run, name, request}], missing}. */
  show({ race, lanes, missing }) {
    this.pause();
    for (const lane of this.lanes) lane.live.close();
    this.id = race;
    this.missing = missing || [];
    this.standing = null;
    this.time = null;
    this.lanes = lanes.map((told, place) => new Lane(told, place, new Live({ open: this._open, later: this._later })));
    this._tell("race");
    for (const lane of this.lanes) {
      lane.live.show(lane.run, lane.request);
      lane.live.on(() => {
        if (this.lanes.includes(lane) && lane.take(this.lanes[0])) this._tell("lanes");
      });
    }
  }

  get over() {
    return this.lanes.length > 0 && this.lanes.every((lane) => lane.over);
  }

  /** The time of the lane that took longest, ms. */
  get longest() {
    return Math.max(0, ...this.lanes.map((lane) => lane.clock(lane.count)));
  }

  /** How many steps of a lane are shown. */
  shown(lane) {
    return this.time === null ? lane.count : lane.stepsBy(this.time);
  }

  setStanding(standing) {
    this.standing = standing;
    this._tell("standing");
  }

  // --- the moment that is shown ---------------------------------------------------------------------------------

  go(time) {
    this.time = Math.max(0, Math.min(this.longest, time));
    this._tell("time");
  }

  newest() {
    this.pause();
    this.time = null;
    this._tell("time");
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.longest) return;
    this.playing = true;
    if (this.time === null || this.time >= this.longest) this.time = 0;
    this._tell("time");
    let before = performance.now();
    const tick = () => {
      const now = performance.now();
      this.go(this.time + (now - before) * this.speed);
      before = now;
      if (this.time >= this.longest && this.over) this.newest();
      else if (this.playing) this._timer = setTimeout(tick, TICK_MS);
    };
    this._timer = setTimeout(tick, TICK_MS);
  }

  pause() {
    clearTimeout(this._timer);
    if (!this.playing) return;
    this.playing = false;
    this._tell("time");
  }

  setSpeed(speed) {
    this.speed = speed;
    this._tell("time");
  }

  _tell(what) {
    for (const listener of this._listeners) listener(new Set([what]));
  }
}

/** One lane: its run, and by every step how long its clock had run, how many tokens and characters it had. */
export class Lane {
  constructor({ letter, run, name, request }, place, live) {
    Object.assign(this, { letter, run, name, request, place, live });
    this.text = "";
    this.leaves = null; // character at which its text leaves the first lane's, as far as both are known
    this._same = 0;
    this._clocks = [0];
    this._tokens = [0];
    this._accepted = [0];
    this._starts = [0]; // where a step's text begins
    this._status = "";
    this._read = false; // the token from reading the prompt was taken
  }

  get over() {
    return Boolean(this.live.run && this.live.run.over);
  }

  get count() {
    return this._clocks.length - 1;
  }

  /** Time of the first `count` steps, ms. */
  clock(count) {
    return this._clocks[count];
  }

  /** Tokens after `count` steps, the one from reading the prompt included. */
  tokens(count) {
    return this._tokens[count] + (this.live.run && this.live.run.prefill ? 1 : 0);
  }

  start(index) {
    return this._starts[index];
  }

  /** How many steps its clock had finished by `time`. */
  stepsBy(time) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this._clocks[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Whether it ended with steps that are not kept any more: then only its end can be shown. */
  get pruned() {
    const { run } = this.live;
    return Boolean(run && run.result && run.result.num_steps && !run.steps.length);
  }

  /** {tokens, steps, tokensPerS, acceptanceLength, clock} after `count` steps. */
  figures(count) {
    if (this.pruned) {
      const end = this.live.run.result;
      return { tokens: end.tokens.length, steps: end.num_steps, clock: end.draft_ms + end.verify_ms + end.commit_ms + end.overhead_ms,
        tokensPerS: end.tokens_per_s, acceptanceLength: end.acceptance_length };
    }
    const clock = this._clocks[count];
    return { tokens: this.tokens(count), steps: count, clock, tokensPerS: clock > 0 ? (1000 * this._tokens[count]) / clock : null,
      acceptanceLength: count ? 1 + this._accepted[count] / count : null };
  }

  /** Takes what is new of its run; whether there was anything. */
  take(first) {
    const { run } = this.live;
    if (!run) return false;
    const status = `${run.status} ${run.loading ? `${run.loading.fraction} ${run.loading.sentence}` : ""} ${run.position} ${run.holder} ${Boolean(run.prefill)}`;
    const before = this.count;
    if (run.prefill && !this._read) {
      this._read = true;
      this.text = run.prefill.text;
      this._starts = [this.text.length];
    }
    for (let at = before; at < run.steps.length; at += 1) {
      const step = run.steps[at];
      this._clocks.push(this._clocks[at] + step.step_ms);
      this._tokens.push(this._tokens[at] + step.tokens.length);
      this._accepted.push(this._accepted[at] + step.num_accepted);
      this.text += step.text;
      this._starts.push(this.text.length);
    }
    this.compare(first);
    if (status === this._status && before === this.count) return false;
    this._status = status;
    return true;
  }

  /** Looks where the text leaves that of the first lane. */
  compare(first) {
    if (first === this || this.leaves !== null) return;
    const both = Math.min(this.text.length, first.text.length);
    while (this._same < both && this.text[this._same] === first.text[this._same]) this._same += 1;
    if (this._same < both) this.leaves = this._same;
  }
}
