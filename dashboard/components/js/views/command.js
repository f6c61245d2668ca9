// The run as a command line, and its way into the clipboard.

import { h } from "../dom.js";

export function mount(element, live, { props, watch }) {
  const box = textBox();
  element.replaceChildren(box.node);
  watch("value", () => box.show((props.value && props.value.text) || ""));
}

/** {node, show(text)}: text to take along, copied as soon as it is shown; an empty one hides the box. */
export function textBox() {
  const code = h("pre", { class: "hw-command-text", tabindex: "0" });
  const copy = h("button", { type: "button", class: "hw-small", onclick: () => toClipboard(code, copy) }, "Copy");
  const node = h("div", { class: "hw-command", hidden: true }, code, copy);
  const show = (text) => {
    node.hidden = !text;
    code.textContent = text;
    if (text) toClipboard(code, copy);
  };
  return { node, show };
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
