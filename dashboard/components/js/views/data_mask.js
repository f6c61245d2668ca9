// A row token by token, as the target's tokenizer and chat template make it: what is trained on stands out, the rest is
// pale, special tokens have a frame. Comes from the code that training uses.

import { h, setText } from "../dom.js";
import { percent, visible } from "../text.js";

export function maskCard(page) {
  const target = h("input", { type: "text", id: "hw-mask-target", list: "hw-mask-targets", spellcheck: "false", value: "smollm2-135m" });
  const targets = h("datalist", { id: "hw-mask-targets" });
  const row = h("input", { type: "number", id: "hw-mask-row", min: 1, value: 1 });
  const back = h("button", { type: "button", class: "hw-small", "aria-label": "The row before" }, "←");
  const on = h("button", { type: "button", class: "hw-small", "aria-label": "The next row" }, "→");
  const go = h("button", { type: "submit", class: "hw-small", "data-action": "mask" }, "Show tokens");
  const of = h("span", { class: "hw-muted" });
  const said = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const waiting = h("p", { class: "hw-muted", role: "status", hidden: true }, "Reading the tokenizer; the first time takes some seconds…");
  const sums = h("p", { class: "hw-mask-sums" });
  const notes = h("div", {});
  const tokens = h("div", { class: "hw-mask", tabindex: "0", "aria-label": "Tokens" });
  const told = h("p", { class: "hw-muted hw-mask-told" });
  const legend = h("p", { class: "hw-legend" }, h("span", { class: "hw-tok trained" }, "trained"), h("span", { class: "hw-tok" }, "masked"), h("span", { class: "hw-tok special" }, "special token"),
    h("span", {}, "· is a blank, ↵ a line end; point at a token to read its number."));
  const result = h("div", { class: "hw-mask-result", hidden: true }, sums, notes, tokens, told, legend);
  const form = h("form", { class: "hw-mask-form", novalidate: true },
    h("span", {}, h("label", { for: "hw-mask-target" }, "Target"), target, targets),
    h("span", { class: "hw-mask-row" }, h("label", { for: "hw-mask-row" }, "Row"), back, row, on, of), go);
  const box = h("section", { class: "hw-card hw-maskcard", id: "hw-mask-card" }, h("h3", {}, "What is trained on, token by token"), form, said, waiting, result);

  let asked = 0;
  const look = async () => {
    const shown = page.shown;
    if (!shown) return;
    const number = Math.max(1, Math.min(shown.rows, Math.round(Number(row.value)) || 1));
    row.value = number;
    asked += 1;
    const mine = asked;
    const late = setTimeout(() => { waiting.hidden = false; }, 300);
    said.hidden = true;
    try {
      const query = new URLSearchParams({ target: target.value, row: number });
      const mask = await page.feed.ask(`/headway/data/sets/${encodeURIComponent(shown.id)}/mask?${query}`);
      if (mask.error) throw new Error(mask.error);
      if (mine === asked) draw(mask);
    } catch (error) {
      if (mine === asked) {
        setText(said, error.message);
        said.hidden = false;
        result.hidden = true;
      }
    }
    clearTimeout(late);
    if (mine === asked) waiting.hidden = true;
  };
  const draw = (mask) => {
    result.hidden = false;
    const special = mask.tokens.filter((token) => token.special).length;
    sums.replaceChildren(h("b", {}, mask.title), `: ${mask.num_tokens.toLocaleString("en")} tokens, `, h("b", {}, mask.num_trained.toLocaleString("en")), ` trained (${percent(mask.num_tokens ? mask.num_trained / mask.num_tokens : null)}), `,
      `${(mask.num_tokens - mask.num_trained).toLocaleString("en")} masked, ${special} special`, mask.tokens.length < mask.num_tokens ? `; the first ${mask.tokens.length.toLocaleString("en")} are shown` : "");
    notes.replaceChildren(...mask.notes.map((note) => h("p", { class: "hw-note-line" }, note)));
    const pieces = document.createDocumentFragment();
    mask.tokens.forEach((token, at) => {
      const name = `hw-tok${token.trained ? " trained" : ""}${token.special ? " special" : ""}`;
      pieces.append(h("span", { class: name, "data-at": at, "data-id": token.id }, visible(token.text)));
      if (token.text.includes("\n")) pieces.append(h("br"));
    });
    tokens.replaceChildren(pieces);
    setText(told, " ");
  };
  tokens.addEventListener("pointerover", (event) => {
    const token = event.target.closest("[data-at]");
    if (!token) return;
    const trained = token.classList.contains("trained") ? "trained" : "masked";
    setText(told, `Token ${Number(token.dataset.at) + 1}: id ${token.dataset.id}, ${trained}${token.classList.contains("special") ? ", special" : ""}`);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
  const step = (by) => {
    row.value = Number(row.value) + by;
    look();
  };
  back.addEventListener("click", () => step(-1));
  on.addEventListener("click", () => step(1));

  page.lookAt = (number) => {
    row.value = number;
    box.scrollIntoView({ block: "nearest", behavior: "smooth" });
    look();
  };
  page.offerTargets = (choices, first) => {
    targets.replaceChildren(...choices.map(([label, value]) => h("option", { value }, label)));
    if (first) target.value = first;
  };
  let of_set = null;
  page.on((changed) => {
    if (!changed.has("shown") || !page.shown) return;
    setText(of, `of ${page.shown.rows.toLocaleString("en")}`);
    row.max = page.shown.rows;
    if (of_set !== page.shown.id) {
      of_set = page.shown.id;
      asked += 1; // an answer that still comes belongs to another set
      row.value = 1;
      if (page.shown.target) target.value = page.shown.target; // who wrote these answers
      result.hidden = true;
      said.hidden = true;
      waiting.hidden = true;
    }
  });
  return box;
}
