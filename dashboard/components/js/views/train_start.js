// What stands here before anything was trained: one sentence and one button. value: {sentence, button, note} or null.
// Triggers begin {}.

import { h } from "../dom.js";
import { trainer } from "../train.js";

export function mount(element, feed, { props, watch, trigger }) {
  const train = trainer(feed);
  const sentence = h("p", { class: "hw-empty-text" });
  const button = h("button", { type: "button", class: "hw-primary" });
  const note = h("p", { class: "hw-muted" });
  const box = h("section", { class: "hw-card hw-first", hidden: true }, h("h3", null, "Train your first heads"), sentence, button, note);
  element.replaceChildren(box);
  let begun = false;
  button.addEventListener("click", () => {
    begun = true;
    button.disabled = true;
    trigger("begin", {});
  });
  const draw = () => {
    const value = props.value;
    const trained = (feed.jobs || []).some((job) => job.kind === "train");
    box.hidden = !value || feed.jobs === null || trained || begun || Boolean(train.id);
    if (!value) return;
    sentence.textContent = value.sentence;
    button.textContent = value.button;
    note.textContent = value.note;
  };
  watch("value", () => {
    begun = false;
    button.disabled = false;
    draw();
  });
  feed.on(draw);
  train.on(draw);
}
