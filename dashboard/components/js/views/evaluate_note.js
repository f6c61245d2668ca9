// One line under the form: how much would be measured and how long it may take, or what is wrong with the settings.
// value: {text, problem: bool}

import { h, setText } from "../dom.js";

export function mount(element, feed, { props, watch }) {
  const line = h("p", { class: "hw-evaluate-note", role: "status", "aria-live": "polite" });
  element.replaceChildren(line);
  const draw = () => {
    const { text = "", problem = false } = props.value || {};
    setText(line, text);
    line.classList.toggle("wrong", problem);
    line.hidden = !text;
  };
  watch("value", draw);
  draw();
}
