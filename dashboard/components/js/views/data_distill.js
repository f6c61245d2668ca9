// The form that lets a target answer a prompt set: fields from the job's own config, the same as a command or a file.

import { h, setText } from "../dom.js";
import * as schemaForm from "./schema_form.js";

const GROUPS = [["", "The target answers these prompts itself"]];
const BUTTONS = [{ action: "start", label: "Distil", primary: true }, { action: "command", label: "Copy as command" }, { action: "yaml", label: "As YAML" }];

export function distillCard(page) {
  const inside = h("div", {});
  const text = h("pre", { class: "hw-command-text", tabindex: "0", hidden: true });
  const said = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const done = h("p", { class: "hw-muted", role: "status", hidden: true });
  const box = h("section", { class: "hw-card hw-distill" }, h("h3", {}, "Distil"), inside, text, said, done);
  const props = { value: null };
  let redraw = () => {};
  let fill = 0;
  const tell = (changes) => {
    props.value = { ...props.value, ...changes };
    redraw();
  };
  const act = async (action, typed) => {
    said.hidden = true;
    done.hidden = true;
    text.hidden = action === "check" ? text.hidden : true;
    try {
      const found = await page.feed.ask("/headway/data/distill", { action, typed });
      tell({ problems: found.problems });
      if (found.text) {
        text.textContent = found.text;
        text.hidden = false;
        setText(done, (await copied(text)) ? "Copied." : "Press Ctrl+C to copy it.");
        done.hidden = false;
      }
      if (found.job) {
        setText(done, "Queued; it goes on when you close this page. The answers appear among the data sets.");
        done.hidden = false;
      }
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
  };
  schemaForm.mount(inside, page.feed, {
    props,
    watch: (name, call) => { redraw = call; },
    trigger: (event, data) => act(event === "edit" ? "check" : data.action, data.typed),
  });

  // Choices follow the data sets; the chosen prompts follow the data set that is shown, and else stay as they were.
  const load = async (follow) => {
    try {
      const { fields, target } = await page.feed.ask("/headway/data/distill");
      const known = fields.find((field) => field.field === "prompts").choices.map(([, id]) => id);
      const typed = {};
      if (follow && page.shown && known.includes(page.shown.id)) typed.prompts = page.shown.id;
      else if (!fill) typed.prompts = known[0] ?? "";
      if (!fill) {
        typed.target = target;
        page.offerTargets(fields.find((field) => field.field === "target").choices, target);
      }
      if (Object.keys(typed).length) fill += 1;
      tell({ name: "distill", fields, groups: GROUPS, buttons: BUTTONS, typed, problems: {}, fill });
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
  };
  page.on((changed) => { if (page.sets && page.sets.some((one) => one.kind === "prompts")) load(changed.has("shown")); });
  return box;
}

async function copied(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    // Not allowed, or no secure context: select the text, so that Ctrl+C takes it.
    window.getSelection().selectAllChildren(node);
    return false;
  }
}
