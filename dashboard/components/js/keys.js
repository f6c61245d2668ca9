// The keys of a page, shown by "?".

import { h } from "./dom.js";

const KEYS = {
  "/live": [["←  →", "step back, step forward"], ["Home  End", "first and last step"], ["Space", "play or pause"],
    ["↑  ↓", "node of the tree, when the tree has the focus"]],
  "/race": [["Space", "play or pause"]],
  "/runs": [["/", "to the filter"], ["↑  ↓", "run above, run below"], ["x", "select the run"], ["Enter", "open the run"]],
};
const EVERYWHERE = [["?", "these keys"], ["Esc", "close"]];

/** Listens for "?" and gives the function that shows the keys. */
export function mountKeys(page) {
  const rows = [...(KEYS[page] || []), ...EVERYWHERE].map(([keys, what]) =>
    [h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)]);
  const close = h("button", { type: "button", class: "hw-small" }, "Close");
  const box = h("dialog", { class: "hw-keys", "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl", {}, rows), close);
  document.body.append(box);
  close.addEventListener("click", () => box.close());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  const show = () => { if (!box.open) box.showModal(); };
  document.addEventListener("keydown", (event) => {
    if (event.key === "?" && !isTyping(event)) {
      event.preventDefault();
      show();
    }
  });
  return show;
}

/** Whether a key belongs to a field, not to the page. */
export function isTyping(event) {
  const field = event.target.closest && event.target.closest("input:not([type=range], [type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=listbox]");
  return Boolean(field) || event.ctrlKey || event.metaKey || event.altKey;
}
