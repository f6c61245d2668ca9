// Runs that the store remembers; a click opens one again, with all its steps.

import { h } from "../dom.js";
import { decimal } from "../text.js";

export function mount(element, live, { trigger }) {
  const list = h("ul", {});
  const box = h("details", { class: "hw-card hw-recent" }, h("summary", {}, "Recent runs"), list);
  element.replaceChildren(box);
  let seen = "";
  const load = async () => {
    const runs = await fetch("/headway/runs").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
    if (!runs) return;
    box.hidden = !runs.length;
    list.replaceChildren(...runs.map((run) => row(run, live, trigger)));
  };
  live.on(() => {
    const now = live.run ? `${live.run.runId} ${live.run.over}` : "none";
    if (now !== seen) {
      seen = now;
      load();
    }
  });
}

function row(run, live, trigger) {
  const note = [run.status === "finished" ? null : run.status, run.drafter, run.tokens === null ? null : `${run.tokens} tokens`,
    run.acceptance_length === null ? null : `${decimal(run.acceptance_length)} a step`, when(run.at)].filter(Boolean).join(" · ");
  const link = h("a", { href: `?run=${encodeURIComponent(run.id)}` }, h("span", { class: "hw-recent-prompt" }, run.prompt || "(no text)"), h("small", {}, note));
  if (live.run && live.run.runId === run.id) link.classList.add("current");
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab, as with any link
    event.preventDefault();
    trigger("open", { run: run.id });
  });
  return h("li", {}, link);
}

function when(iso) {
  const then = new Date(iso);
  const today = new Date().toDateString() === then.toDateString();
  return today ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : then.toLocaleDateString();
}
