// All data sets: what they are, their hash, and where they come from. A click shows one.

import { h } from "../dom.js";
import { ago } from "../job_card.js";

export function setList(page, failed) {
  const list = h("ul", { class: "hw-sets" });
  const box = h("section", { class: "hw-card hw-setlist", hidden: true }, h("h3", {}, "Data sets"), list);
  page.on(() => {
    const sets = page.sets || [];
    box.hidden = !sets.length;
    list.replaceChildren(...sets.map((one) => line(one, page, failed)));
  });
  return box;
}

function line(one, page, failed) {
  const current = page.shown && page.shown.id === one.id;
  const count = `${one.rows.toLocaleString("en")} ${one.kind === "answers" ? "answers" : "prompts"}`;
  const broken = one.broken ? `, ${one.broken.toLocaleString("en")} broken` : "";
  const link = h("a", { href: `?set=${encodeURIComponent(one.id)}`, class: current ? "current" : null, "aria-current": current ? "true" : null },
    h("span", { class: "hw-set-name" }, one.name), h("small", {}, count + broken, one.missing ? h("em", {}, " · file is gone") : null),
    h("small", { class: "hw-set-lineage" }, one.lineage), h("small", {}, h("code", {}, one.hash), ` · ${ago(one.at)}`));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab, as with any link
    event.preventDefault();
    page.choose(one.id).then(() => failed(null), failed);
  });
  return h("li", {}, link);
}
