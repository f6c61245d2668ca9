// The run as a command line, and its way into the clipboard.

import { h } from "../dom.js";

export function mount(element, live, { props, watch }) {
  const code = h("pre", { class: "hw-command-text", tabindex: "0" });
  const copy = h("button", { type: "button", class: "hw-small", onclick: () => toClipboard(code, copy) }, "Copy");
  const box = h("div", { class: "hw-command", hidden: true }, code, copy);
  element.replaceChildren(box);
  const draw = () => {
    const text = (props.value && props.value.text) || "";
    box.hidden = !text;
    code.textContent = text;
    if (text) toClipboard(code, copy);
  };
  watch("value", draw);
}

async function toClipboard(code, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Not allowed, or no secure context: select the text, so that Ctrl+C takes it.
    window.getSelection().selectAllChildren(code);
    done = false;
  }
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}
