// One job as a card: what it is, how far it is, what can be done, the end of its log. And the list of them.

import { h, s, setText } from "./dom.js";
import { STATUS, amount, duration, timeLeft } from "./jobs.js";

export const KIND = {
  distill: { name: "Distil", page: "/data" }, train: { name: "Train", page: "/train" }, evaluate: { name: "Evaluate", page: "/evaluate" },
  plan: { name: "Measure" }, joint: { name: "Train jointly" }, finetune: { name: "Fine-tune" }, calibrate: { name: "Calibrate", page: "/trees" }, cost: { name: "Cost", page: "/trees" }, sweep: { name: "Sweep", page: "/sweep" },
  audit: { name: "Audit", page: "/audit" }, doctor: { name: "Diagnose", page: "/doctor" },
  "tune-tree": { name: "Tune", page: "/trees" }, export: { name: "Export", page: "/export" },
  vllm: { name: "Serve", page: "/serve" }, "load-test": { name: "Load test", page: "/serve" }, "compare-serving": { name: "Compare with vLLM", page: "/serve" }, release: { name: "Release" }, adapters: { name: "Adapters", page: "/adapters" }, watch: { name: "Watch" },
};
const ACTIONS = {
  pause: ["Pause", "Saves a checkpoint and waits"], resume: ["Resume", "Goes on from the last checkpoint"],
  stop: ["Stop", "Ends at the next checkpoint; what it made stays"], delete: ["Delete", "Forgets the job with its metrics and log"],
};

/** {node, update(row, place)}; `place` is {above, below}: ids in the queue, for the arrows. */
export function jobCard(feed, first) {
  let job = first;
  const icon = h("span", { class: "hw-job-icon" });
  const word = h("span", { class: "hw-job-word" });
  const name = h("a", { class: "hw-job-name" });
  const kind = h("span", { class: "hw-job-kind" });
  const when = h("span", { class: "hw-job-when" });
  const bar = h("i", {});
  const track = h("div", { class: "hw-job-track", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" }, bar);
  const note = h("span", { class: "hw-job-note" });
  const left = h("span", { class: "hw-job-left" });
  const line = h("div", { class: "hw-job-line" }, note, left);
  const problem = h("p", { class: "hw-problem", role: "alert" });
  const actions = h("div", { class: "hw-job-actions" });
  const log = logBox(feed, job.id);
  const node = h("li", { class: "hw-job", "data-job": job.id },
    h("div", { class: "hw-job-head" }, icon, kind, name, word, h("span", { class: "hw-grow" }), when, actions), track, line, problem, log.node);
  let drawn = "";
  let said = "";

  async function act(action, values) {
    said = "";
    try {
      await feed.act(job.id, action, values);
    } catch (error) {
      said = error.message;
    }
    setText(problem, said || job.error || "");
    problem.hidden = !problem.textContent;
  }

  function update(row, place = {}) {
    job = row;
    const { word: said_word, shape } = STATUS[row.status] || { word: row.status, shape: "ring" };
    const asked = row.requested ? `asked to ${row.requested}` : said_word;
    node.dataset.status = row.status;
    setText(kind, (KIND[row.kind] || { name: row.kind }).name);
    setText(name, row.name);
    const page = (KIND[row.kind] || {}).page;
    if (page) name.setAttribute("href", `${page}?job=${encodeURIComponent(row.id)}`);
    setText(word, asked);
    setText(when, times(row));
    const fraction = row.progress ? row.progress.fraction : null;
    const shown = fraction !== null && row.status !== "finished";
    track.hidden = !shown;
    if (shown) {
      bar.style.width = `${(100 * fraction).toFixed(1)}%`;
      track.setAttribute("aria-valuenow", String(Math.round(100 * fraction)));
    }
    setText(note, row.status === "finished" ? "" : amount(row.progress));
    setText(left, row.status === "running" ? timeLeft(row.progress) : "");
    line.hidden = !note.textContent && !left.textContent;
    setText(problem, said || row.error || "");
    problem.hidden = !problem.textContent;
    const key = `${row.status} ${row.requested} ${place.above} ${place.below}`;
    if (key !== drawn) {
      drawn = key;
      icon.replaceChildren(statusIcon(shape));
      actions.replaceChildren(...buttons(row, place, act));
    }
  }
  update(first);
  return { node, update, close: log.close };
}

function buttons(row, place, act) {
  const arrow = (label, title, before) => h("button", { type: "button", class: "hw-small hw-arrow", title, "aria-label": title, onclick: () => act("move", { before }) }, label);
  const made = [];
  if (place.above !== undefined) made.push(arrow("↑", "Earlier in the queue", place.above));
  if (place.below !== undefined) made.push(arrow("↓", "Later in the queue", place.below));
  for (const action of row.actions) {
    if (!ACTIONS[action] || row.requested === action) continue;
    const [label, title] = ACTIONS[action];
    made.push(h("button", { type: "button", class: "hw-small", title, onclick: () => act(action) }, label));
  }
  return made;
}

function times(row) {
  if (row.status === "running" && row.started_at) return `for ${duration((Date.now() - Date.parse(row.started_at)) / 1000)}`;
  const moment = row.finished_at || row.created_at;
  return moment ? ago(moment) : "";
}

/** "just now", "5 min ago", or the date. */
export function ago(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 24 * 3600) return `${duration(seconds)} ago`;
  return new Date(iso).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** The log is only asked for while it is unfolded. */
function logBox(feed, id) {
  const text = h("pre", { class: "hw-log", tabindex: "0", "aria-label": "Log" });
  const download = h("a", { class: "hw-small", href: `/headway/jobs/${encodeURIComponent(id)}/log` }, "Download the log");
  const metrics = h("a", { class: "hw-small", href: `/headway/jobs/${encodeURIComponent(id)}/metrics.csv` }, "Metrics as CSV");
  const json = h("a", { class: "hw-small", href: `/headway/jobs/${encodeURIComponent(id)}/metrics.json` }, "as JSON");
  const box = h("details", { class: "hw-job-log" }, h("summary", {}, "Log"), text, h("div", { class: "hw-actions" }, download, metrics, json));
  let leave = null;
  const close = () => {
    if (leave) leave();
    leave = null;
  };
  box.addEventListener("toggle", () => {
    close();
    if (!box.open) return;
    text.textContent = "Nothing was logged yet.";
    leave = feed.job(id).on((changed, state) => {
      if (!changed.has("log") || !state.log) return;
      const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 30;
      text.textContent = state.log;
      if (atEnd) text.scrollTop = text.scrollHeight;
    });
  });
  return { node: box, close };
}

/** Shapes differ as well as colours: ring, turning ring, bars, bolt, tick, cross, square. */
export function statusIcon(shape) {
  const parts = {
    ring: [s("circle", { r: 5.5, class: "line" })],
    turning: [s("circle", { r: 5.5, class: "faint" }), s("path", { d: "M0 -5.5A5.5 5.5 0 0 1 5.5 0", class: "line turn" })],
    bars: [s("path", { d: "M-2.6 -5V5M2.6 -5V5", class: "line thick" })],
    bolt: [s("path", { d: "M1.5 -6.5L-4 1H-0.5L-1.5 6.5L4 -1H0.5Z", class: "full" })],
    tick: [s("path", { d: "M-5 0.5L-1.5 4L5.5 -4", class: "line thick" })],
    cross: [s("path", { d: "M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5", class: "line thick" })],
    square: [s("rect", { x: -4.5, y: -4.5, width: 9, height: 9, rx: 1.5, class: "full" })],
  };
  return s("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", class: `hw-shape ${shape}`, "aria-hidden": "true" }, parts[shape] || parts.ring);
}

/**
 * The cards of the jobs that `wanted(row, index, rows)` takes, kept up to date without losing what is unfolded.
 * {node, leave()}; `changed(count)` is called after each drawing.
 */
export function jobList(feed, wanted, changed = () => {}) {
  const node = h("ul", { class: "hw-jobs" });
  const cards = new Map();
  const draw = () => {
    const rows = (feed.jobs || []).filter(wanted);
    const waiting = rows.filter((row) => row.status === "queued").map((row) => row.id);
    for (const [id, card] of cards) {
      if (rows.some((row) => row.id === id)) continue;
      card.close();
      card.node.remove();
      cards.delete(id);
    }
    rows.forEach((row, index) => {
      if (!cards.has(row.id)) cards.set(row.id, jobCard(feed, row));
      const card = cards.get(row.id);
      card.update(row, neighbours(waiting, row.id));
      if (node.children[index] !== card.node) node.insertBefore(card.node, node.children[index] || null);
    });
    changed(rows.length);
  };
  const leave = feed.on((what) => { if (what.has("jobs")) draw(); });
  return { node, leave };
}

/** Where a waiting job may go: before which job for a place up and a place down (null: the end). */
function neighbours(waiting, id) {
  const at = waiting.indexOf(id);
  if (at < 0) return {};
  const place = {};
  if (at > 0) place.above = waiting[at - 1];
  if (at < waiting.length - 1) place.below = waiting[at + 2] ?? null;
  return place;
}
