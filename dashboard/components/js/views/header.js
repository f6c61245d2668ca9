// The page's name, what the device is doing, light or dark.

import { h, setText } from "../dom.js";

export function mount(element, live) {
  const chip = h("span", { class: "hw-device" });
  const button = h("button", { type: "button", class: "hw-icon", title: "Light or dark", "aria-label": "Switch between light and dark" }, "◐");
  button.addEventListener("click", () => setDark(!document.body.classList.contains("dark")));
  element.replaceChildren(h("header", { class: "hw-header" },
    h("a", { class: "hw-name", href: "/" }, mark(), "Headway"),
    h("span", { class: "hw-tagline" }, "Live decoding"),
    h("span", { class: "hw-grow" }), chip, button));
  const kept = readKept();
  if (kept) setDark(kept === "dark");
  let asked = "";
  const ask = async () => {
    const status = await fetch("/headway/status").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
    if (status) setText(chip, [status.device, status.loaded_target, status.holder || "idle"].filter(Boolean).join(" · "));
  };
  live.on(() => {
    const now = live.run ? `${live.run.runId} ${live.run.status}` : "none";
    if (now !== asked) {
      asked = now;
      ask();
    }
  });
}

function mark() {
  return h("span", { class: "hw-mark", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
}

function setDark(dark) {
  document.body.classList.toggle("dark", dark);
  try {
    localStorage.setItem("headway-theme", dark ? "dark" : "light");
  } catch {
    // Storage may be switched off; the choice then lasts as long as the page.
  }
}

function readKept() {
  if (new URLSearchParams(window.location.search).has("__theme")) return null;
  try {
    return localStorage.getItem("headway-theme");
  } catch {
    return null;
  }
}
