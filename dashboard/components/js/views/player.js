// Which step is shown: scrubber, single steps, playing at the measured pace or slower, and back to the live end.

import { h, setText } from "../dom.js";

const SPEEDS = [[1, "1×"], [0.5, "½×"], [0.25, "¼×"], [0.1, "⅒×"]];

export function mount(element, live) {
  const button = (label, title, act) => h("button", { type: "button", class: "hw-key", title, "aria-label": title, onclick: act }, label);
  const play = button("▶", "Play or pause (space)", () => live.toggle());
  const slider = h("input", { type: "range", min: "1", max: "1", value: "1", "aria-label": "Step" });
  slider.addEventListener("input", () => live.go(Number(slider.value) - 1));
  const place = h("span", { class: "hw-place" });
  const speed = h("select", { "aria-label": "Speed", title: "Speed of playing, against the measured pace" }, SPEEDS.map(([value, name]) => h("option", { value }, name)));
  speed.addEventListener("change", () => live.setSpeed(Number(speed.value)));
  const follow = h("button", { type: "button", class: "hw-follow", title: "Always show the newest step", onclick: () => live.followLive() }, "Live");
  element.replaceChildren(h("div", { class: "hw-player", role: "group", "aria-label": "Steps" },
    button("◀", "Step back (left arrow)", () => live.back()), play, button("▶▏", "Step forward (right arrow)", () => live.forward()),
    slider, place, speed, follow));

  document.addEventListener("keydown", (event) => keys(event, live));
  live.on((changed) => {
    if (!["run", "cursor", "steps", "status"].some((name) => changed.has(name))) return;
    const count = live.last + 1;
    slider.max = String(Math.max(1, count));
    slider.value = String(live.cursor + 1);
    slider.disabled = count === 0;
    setText(place, count ? `step ${live.cursor + 1} of ${count}` : "no steps");
    setText(play, live.playing ? "❚❚" : "▶");
    const running = Boolean(live.run && !live.run.over);
    setText(follow, running ? "Live" : "Last");
    follow.classList.toggle("on", live.follow && count > 0);
    follow.classList.toggle("running", running && live.follow);
  });
}

function keys(event, live) {
  const typing = event.target.closest && event.target.closest("input:not([type=range]), textarea, select, [contenteditable], [role=listbox]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !live.run) return;
  const onButton = event.target.closest && event.target.closest("button, a, input, summary");
  const act = {
    ArrowLeft: () => live.back(), ArrowRight: () => live.forward(),
    Home: () => live.go(0), End: () => live.go(live.last),
    " ": onButton ? null : () => live.toggle(),
  }[event.key];
  if (!act || (event.target.type === "range" && event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
  event.preventDefault();
  act();
}
