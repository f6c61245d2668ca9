// One line above the answer: what the run is doing, where it waits, what went wrong.

import { h, setText } from "../dom.js";

export function mount(element, live) {
  const text = h("span", { class: "hw-banner-text" });
  const share = h("button", {
    type: "button", class: "hw-banner-share", hidden: true, title: "Slower, and its numbers count as measured beside other work",
    onclick: () => live.share(),
  }, "Decode on the CPU now");
  const bar = h("i", { class: "hw-banner-bar" });
  const box = h("div", { class: "hw-banner", role: "status", "aria-live": "polite" }, text, share, h("div", { class: "hw-banner-track" }, bar));
  element.replaceChildren(box);
  live.on((changed) => {
    if (!changed.has("status") && !changed.has("run")) return;
    const { kind, sentence, fraction } = message(live);
    box.dataset.kind = kind;
    box.hidden = !sentence;
    share.hidden = !(live.run && live.run.status === "queued" && live.run.holder && !live.notice);
    setText(text, sentence);
    bar.style.width = fraction === null ? "0" : `${Math.round(100 * fraction)}%`;
    box.classList.toggle("has-bar", fraction !== null);
  });
}

/** {kind: quiet, busy, warning or error; sentence; fraction 0..1 or null}. */
export function message(live) {
  const plain = (kind, sentence, fraction = null) => ({ kind, sentence, fraction });
  const run = live.run;
  if (live.notice) return plain("error", live.notice);
  if (!run) return plain("quiet", "");
  if (run.status === "failed") return plain("error", run.error);
  if (run.status === "queued" && run.holder) return plain("busy", `Waiting for the device, which is busy: ${run.holder}.`);
  if (run.status === "queued") {
    return run.position > 0
      ? plain("busy", `Waiting: ${run.position === 1 ? "one run is" : `${run.position} runs are`} ahead of yours.`)
      : plain("busy", "Starting…");
  }
  if (run.status === "loading") return plain("busy", run.loading.sentence || "Loading…", run.loading.fraction ?? null);
  if (run.status === "connecting") return plain("busy", "Connecting…");
  if (run.status === "cancelled" && !live.unstored) return plain("quiet", "Stopped.");
  const warnings = live.unstored ? [...run.warnings, live.unstored] : run.warnings;
  if (warnings.length) return plain("warning", warnings.join(" "));
  return plain("quiet", "");
}
