// A knob's card, on the Learn page and behind a field of a form; and a link that is called like the page it leads to.

import { h } from "./dom.js";

/** What it does, what it costs, its default, where it is measured and by which command. */
export function knobParts(one) {
  const shown = one.default_note || one.default.map((at) => (one.default.length > 1 ? `${at.where} ${at.value}` : at.value)).join(", ");
  return [h("h3", {}, one.name), h("p", {}, one.does), h("p", {}, h("b", {}, "Costs. "), one.costs),
    h("p", { class: "hw-muted" }, `Default: ${shown}${/[.!?]$/.test(shown) ? "" : "."} Measured: `, where(one.measured)), h("code", { class: "hw-once" }, one.command)];
}

export function where(link) {
  const [page, part] = link.split("#");
  const here = page === window.location.pathname && part;
  const name = page.slice(1).replace(/^./, (letter) => letter.toUpperCase());
  return h("a", { class: "hw-where", href: here ? `#${part}` : link }, here ? "shown here" : name);
}
