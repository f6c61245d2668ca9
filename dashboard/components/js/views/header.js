// The top of every page: name, pages, who has the device and what can be done about it, memory and load, light or dark.

import { isCpu } from "../busy.js";
import { h, setText } from "../dom.js";
import { timeLeft } from "../jobs.js";
import { machineWords } from "../machine.js";
import { readKept, setDark } from "../theme.js";
import { troubleLine } from "../trouble.js";
import { mountKeys } from "../keys.js";
import { mountTerms } from "../terms.js";
import { navigation } from "./nav.js";

export function mount(element, feed, { props }) {
  const { page, pages } = props.value;
  const name = (pages.find((one) => one[1] === page) || [""])[0];
  document.title = page === "/" ? "Headway" : `${name} · Headway`;
  const dark = h("button", { type: "button", class: "hw-icon", title: "Light or dark", "aria-label": "Switch between light and dark" }, "◐");
  dark.addEventListener("click", () => setDark(!document.body.classList.contains("dark")));
  const keys = h("button", { type: "button", class: "hw-icon", title: "Keys (?)", "aria-label": "Show the keys" }, "?");
  const holder = holderBox(feed);
  const machine = h("span", { class: "hw-machine" });
  element.replaceChildren(h("header", { class: "hw-header" },
    h("a", { class: "hw-name", href: "/" }, mark(), h("span", {}, "Headway")),
    navigation(pages, page), h("span", { class: "hw-grow" }), machine, holder, keys, dark), troubleLine(feed));
  const kept = readKept();
  if (kept) setDark(kept === "dark");
  const showKeys = mountKeys(page);
  mountTerms(feed);
  keys.addEventListener("click", showKeys);
  feed.on((changed) => {
    if (!changed.has("machine") && !changed.has("status")) return;
    const words = machineWords(feed.machine);
    setText(machine, words.text);
    machine.title = words.title;
    machine.hidden = !words.text;
  });
}

/** Who has the device; a click shows what can be done about it. */
function holderBox(feed) {
  const dot = h("i", { class: "hw-dot", "aria-hidden": "true" });
  const text = h("span", { class: "hw-holder-text" });
  const panel = h("div", { class: "hw-popover", role: "group", "aria-label": "The device" });
  const load = h("p", { class: "hw-muted hw-load" });
  const summary = h("summary", {}, dot, text);
  const box = h("details", { class: "hw-holder" }, summary, panel);
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) box.open = false; });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return;
    box.open = false;
    summary.focus();
  });
  let stopping = "";
  let said = "";
  feed.on(() => {
    const { sentence, state } = holderWords(feed);
    setText(text, sentence);
    box.dataset.state = state;
    summary.title = sentence;
    setText(load, machineWords(feed.machine).title);
    load.hidden = !load.textContent;
    const job = runningJob(feed);
    const key = `${job && job.id} ${job && job.requested} ${state} ${said}`;
    if (key !== stopping) {
      stopping = key;
      panel.replaceChildren(...choices(feed, job, said, (problem) => { said = problem; stopping = ""; }), load);
    }
  });
  return box;
}

/** {sentence, state: idle, busy or away} for the device's chip. */
export function holderWords(feed) {
  const status = feed.status;
  if (!status) return { sentence: feed.connected ? "…" : "connecting…", state: "away" };
  if (!feed.connected) return { sentence: "connection lost, trying again", state: "away" };
  const job = runningJob(feed);
  const left = job ? timeLeft(job.progress) : "";
  if (status.holder) {
    const knows = !left || status.holder.includes(" left");
    return { sentence: `${status.device} busy: ${status.holder}${knows ? "" : `, ${left}`}`, state: "busy" };
  }
  return { sentence: [status.device, status.loaded_target, "idle"].filter(Boolean).join(" · "), state: "idle" };
}

/** The job that has the device, or else the one that runs. */
function runningJob(feed) {
  const jobs = feed.jobs || [];
  const holding = feed.status && feed.status.job;
  return jobs.find((job) => job.id === holding) || jobs.find((job) => job.status === "running") || null;
}

function choices(feed, job, said, complain) {
  const status = feed.status || {};
  if (!job) {
    const sentence = status.holder
      ? "Runs take turns on the device: yours starts when this one is done."
      : "Nothing is running. The device is free for live decoding and jobs.";
    return [h("p", {}, sentence)];
  }
  const asked = job.requested ? `It was asked to ${job.requested} and ends at its next checkpoint.` : null;
  const stop = (action) => feed.act(job.id, action).catch((error) => complain(error.message));
  return [
    h("p", {}, h("b", {}, job.name), status.holder ? " has the device." : " is running."),
    h("p", { class: "hw-muted" }, `Wait: a live run begins when the job is done or paused. Or use the CPU: the run that waits offers it${isCpu(status.place || status.device) ? "" : ", and so does each form that starts a job"}.`),
    asked ? h("p", { class: "hw-muted" }, asked) : h("div", { class: "hw-actions" },
      h("button", { type: "button", class: "hw-small", onclick: () => stop("pause") }, "Pause the job"),
      h("button", { type: "button", class: "hw-small", onclick: () => stop("stop") }, "Stop the job")),
    said ? h("p", { class: "hw-problem", role: "alert" }, said) : null,
  ].filter(Boolean);
}

function mark() {
  return h("span", { class: "hw-mark", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
}
