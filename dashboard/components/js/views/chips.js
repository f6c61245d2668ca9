// Demo prompts as buttons; a click sends the index to Python, which fills the prompt.

import { h } from "../dom.js";

export function mount(element, live, { props, watch, trigger }) {
  const draw = () => {
    const chips = (props.value || []).map((demo, index) =>
      h("button", { type: "button", class: "hw-chip", title: demo.prompt, onclick: () => trigger("pick", { index }) }, demo.label));
    element.replaceChildren(h("div", { class: "hw-chips", "aria-label": "Example prompts" }, chips));
  };
  watch("value", draw);
  draw();
}
