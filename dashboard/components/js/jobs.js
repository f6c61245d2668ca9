// One job as the page follows it: its record, metric rows, items and the end of its log. Draws nothing, opens nothing.
//
//   const leave = feed.job(id).on((changed, state, fresh) => …);
//
// `changed` is a set of job, metrics, items, log, trouble, gone; `fresh` holds only what is new: {rows: [{seq, step, values}],
// trimmed: step or null, items: [{key, data}], text}. The first call comes at once with everything known so far.
// With `trimmed` rows from that step on are void: the job went back to a checkpoint, and `rows` go on from there.

const LOG_LIMIT = 200_000; // characters kept

export class JobState {
  constructor(id, unused) {
    this.id = id;
    this.job = null;
    this.rows = new Map(); // step -> {seq, step, values}, in the order they came
    this.lastStep = -1;
    this.items = new Map(); // key -> data
    this.log = "";
    this.error = null; // why nothing comes at the moment
    this.gone = false;
    this.position = "";
    this._seq = { metrics: 0, items: 0 };
    this._logEnd = null;
    this._attempt = null;
    this._wentBack = false;
    this._unused = unused;
    this._listeners = new Set();
  }

  on(listener) {
    this._listeners.add(listener);
    const rows = [...this.rows.values()];
    const items = [...this.items].map(([key, data]) => ({ key, data }));
    const known = new Set(["job", "metrics", "items", "log"]);
    if (this.job) listener(known, this, { rows, trimmed: null, items, text: this.log });
    return () => {
      this._listeners.delete(listener);
      if (!this._listeners.size) this._unused();
    };
  }

  take(kind, data) {
    const take = this[`_${kind}`];
    if (!take) return;
    const fresh = { rows: [], trimmed: null, items: [], text: "", ...take.call(this, data) };
    if (kind !== "trouble" && this.error) this.error = null;
    for (const listener of this._listeners) listener(new Set([kind]), this, fresh);
  }

  _job(record) {
    if (this._attempt !== null && record.attempt !== this._attempt) this._wentBack = true;
    this._attempt = record.attempt;
    this.job = record;
  }

  _metrics({ rows }) {
    const fresh = rows.map(([seq, step, values]) => ({ seq, step, values }));
    const first = Math.min(...fresh.map((row) => row.step));
    let trimmed = null;
    if (this._wentBack && first <= this.lastStep) {
      trimmed = first;
      for (const step of [...this.rows.keys()]) if (step >= first) this.rows.delete(step);
      this.lastStep = Math.max(-1, ...this.rows.keys());
    }
    if (fresh.length) this._wentBack = false;
    for (const row of fresh) {
      this.rows.set(row.step, row);
      this.lastStep = Math.max(this.lastStep, row.step);
      this._seq.metrics = Math.max(this._seq.metrics, row.seq);
    }
    this._stand();
    return { rows: fresh, trimmed };
  }

  _items({ items }) {
    for (const { seq, key, data } of items) {
      this.items.set(key, data);
      this._seq.items = Math.max(this._seq.items, seq);
    }
    this._stand();
    return { items };
  }

  _log({ text, restart, end }) {
    this.log = restart ? text : this.log + text;
    if (this.log.length > LOG_LIMIT) this.log = this.log.slice(this.log.indexOf("\n", this.log.length - LOG_LIMIT) + 1);
    this._logEnd = end;
    this._stand();
    return { text: restart ? this.log : text, restart };
  }

  _trouble({ error }) {
    this.error = error;
  }

  _gone({ error }) {
    this.error = error;
    this.gone = true;
  }

  _stand() {
    this.position = `${this._seq.metrics}.${this._seq.items}.${this._logEnd ?? -1}`;
  }
}

/** Whether a job may still change by itself. */
export function isOpen(job) {
  return ["queued", "running", "paused", "interrupted"].includes(job.status);
}

/** The word for a status, and the name of its shape: verdicts differ by shape as well as by colour. */
export const STATUS = {
  queued: { word: "waiting", shape: "ring" },
  running: { word: "running", shape: "turning" },
  paused: { word: "paused", shape: "bars" },
  interrupted: { word: "interrupted", shape: "bolt" },
  finished: { word: "finished", shape: "tick" },
  failed: { word: "failed", shape: "cross" },
  stopped: { word: "stopped", shape: "square" },
};

/** "12 min left", "40 s left"; empty when it can't be told. */
export function timeLeft(progress) {
  return progress && Number.isFinite(progress.left_s) ? `${duration(progress.left_s)} left` : "";
}

export function duration(seconds) {
  if (seconds < 99) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/** "3,200 of 10,000 steps", or the note alone: how far loading is has no unit. */
export function amount(progress) {
  if (!progress) return "";
  const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
  const counted = Number.isFinite(progress.done) && progress.unit && progress.unit !== "loading"
    ? `${number(progress.done)}${Number.isFinite(progress.total) ? ` of ${number(progress.total)}` : ""} ${progress.unit}`.trim() : "";
  return [counted, progress.note].filter(Boolean).join(" · ");
}
