// The form of the Sweep page. Its heart is the space editor: a row a knob, its values as one would say them, and below
// each row what they mean.
// value: {fields, groups, knobs, objectives, typed, notes: [{text, problem}] by row, note, problem, fill}
// A new `fill` writes `typed` into the form; otherwise what a person types is left alone.
// Triggers edit {typed} a moment after the last change, and act {action, typed}.

import { busyNote } from "../busy.js";
import { h, setText } from "../dom.js";

const EDIT_MS = 300;

export function mount(element, feed, gradio) {
  const form = new Form(feed, gradio);
  element.replaceChildren(form.node);
  gradio.watch("value", () => form.take(gradio.props.value));
  form.take(gradio.props.value);
}

class Form {
  constructor(feed, { trigger }) {
    this.feed = feed;
    this.trigger = trigger;
    this.fill = null;
    this.inputs = new Map();
    this.rows = [];
    this.timer = null;
    this.knobs = new Map();
    this.node = h("form", { class: "hw-schema hw-sweep-form", novalidate: true, autocomplete: "off", onsubmit: (event) => event.preventDefault() });
  }

  take(value) {
    if (!value || !value.fields) return;
    if (!this.inputs.size) this.build(value);
    if (value.fill && value.fill !== this.fill) {
      this.fill = value.fill;
      this.write(value.typed);
      this.busy.draw();
    }
    const shown = JSON.stringify(this.typed().rows) === JSON.stringify(value.typed.rows);
    if (shown) this.rows.forEach((row, index) => row.say(value.notes[index]));
    setText(this.note, value.note || "");
    this.note.classList.toggle("wrong", Boolean(value.problem));
  }

  typed() {
    const typed = Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.value]));
    typed.objectives = [...this.goals.querySelectorAll("input:checked")].map((box) => box.value);
    typed.rows = this.rows.map((row) => [row.name, row.input.value]);
    return typed;
  }

  write(typed) {
    for (const [name, input] of this.inputs) input.value = typed[name] ?? "";
    for (const box of this.goals.querySelectorAll("input")) box.checked = (typed.objectives || []).includes(box.value);
    this.rows = [];
    this.space.replaceChildren();
    for (const [name, text] of typed.rows || []) this.add(name, text);
    this.offer();
  }

  edited() {
    this.busy.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.trigger("edit", { typed: this.typed() }), EDIT_MS);
  }

  act(action) {
    clearTimeout(this.timer);
    this.trigger("act", { action, typed: this.typed() });
  }

  build(value) {
    this.knobs = new Map(value.knobs.map((knob) => [knob.name, knob]));
    this.goals = h("div", { class: "hw-sweep-goals" }, value.objectives.map((goal) => h("label", { title: goal.help },
      h("input", { type: "checkbox", value: goal.name, onchange: () => this.edited() }), goal.label)));
    this.space = h("div", { class: "hw-space" });
    this.more = h("select", { "aria-label": "Turn another knob", onchange: () => {
      const knob = this.knobs.get(this.more.value);
      if (!knob) return;
      this.add(knob.name, knob.example);
      this.offer();
      this.rows.at(-1).input.focus();
      this.edited();
    } });
    this.note = h("p", { class: "hw-evaluate-note", role: "status", "aria-live": "polite" });
    this.busy = busyNote(this.feed, {
      device: () => (this.inputs.has("device") ? this.inputs.get("device").value : ""),
      choose: (device) => { this.inputs.get("device").value = device; this.edited(); },
    });
    const button = (action, label, title = null, style = "hw-small") => h("button", { type: "button", class: style, "data-action": action, title, onclick: () => this.act(action) }, label);
    const groups = value.groups.map(([name, label]) => this.group(name, label, value.fields.filter((field) => field.group === name)));
    this.node.replaceChildren(
      h("div", { class: "hw-sweep-presets" }, button("example", "Tree example", "Which tree is fastest here: a grid of a few trees and depths"), button("dial", "Typical dial", "ε and δ of typical acceptance: speed against drift")),
      h("fieldset", { class: "hw-group" }, h("legend", {}, "What is wanted"), this.goals, h("p", { class: "hw-help" }, "Several: a front of settings that no other beats in all of them.")),
      h("fieldset", { class: "hw-group" }, h("legend", {}, "What is turned"), this.space, h("div", { class: "hw-sweep-another" }, this.more),
        h("p", { class: "hw-help" }, "A list: chain-1, 2x2. A range: 0.01 to 0.3, with log for as many small numbers as large ones. One value: that is how it is for all.")),
      ...groups, this.note, this.busy.node,
      h("div", { class: "hw-schema-buttons" }, button("start", "Start the sweep", null, "hw-primary"), button("command", "Copy as command"), button("yaml", "As YAML")));
  }

  group(name, label, fields) {
    const rows = fields.map((field) => {
      const id = `hw-sweep-${field.name}`;
      const input = this.input(field, id);
      this.inputs.set(field.name, input);
      const wide = ["text", "lines", "choice"].includes(field.kind);
      return h("div", { class: `hw-field${wide ? " wide" : ""}` }, h("label", { for: id }, field.label), input, field.help ? h("p", { class: "hw-help" }, field.help) : null);
    });
    const grid = h("div", { class: "hw-fields" }, rows);
    if (name !== "more") return h("fieldset", { class: "hw-group" }, h("legend", {}, label), grid);
    return h("details", { class: "hw-more-fields" }, h("summary", {}, `${fields.length} more`), grid);
  }

  input(field, id) {
    const edited = () => this.edited();
    if (field.kind === "choice") return h("select", { id, onchange: edited }, field.choices.map(([name, label]) => h("option", { value: name }, label)));
    if (field.kind === "lines") return h("textarea", { id, rows: 2, spellcheck: "false", oninput: edited });
    return h("input", { type: "text", id, spellcheck: "false", inputmode: field.kind === "text" ? null : "decimal", oninput: edited });
  }

  add(name, text) {
    const knob = this.knobs.get(name) || { name, label: name, help: "", example: "" };
    const id = `hw-knob-${name}`;
    const input = h("input", { type: "text", id, spellcheck: "false", placeholder: knob.example || "values", "aria-describedby": `${id}-note`, oninput: () => this.edited() });
    input.value = text;
    const note = h("p", { class: "hw-help", id: `${id}-note` });
    const node = h("div", { class: "hw-knob", "data-knob": name },
      h("span", { class: "hw-field-head" }, h("label", { for: id, title: knob.help }, knob.label), h("span", { class: "hw-bounds" }, knob.bounds || ""),
        h("button", { type: "button", class: "hw-icon", title: `Do not turn ${knob.label}`, "aria-label": `Do not turn ${knob.label}`, onclick: () => this.remove(row) }, "✕")),
      input, note);
    const row = { name, input, node, say: (said) => {
      setText(note, said && said.text ? said.text : knob.help);
      note.classList.toggle("hw-problem", Boolean(said && said.problem));
      node.classList.toggle("wrong", Boolean(said && said.problem));
      input.setAttribute("aria-invalid", String(Boolean(said && said.problem)));
    } };
    row.say(null);
    this.rows.push(row);
    this.space.append(node);
  }

  remove(row) {
    this.rows = this.rows.filter((other) => other !== row);
    row.node.remove();
    this.offer();
    this.edited();
  }

  /** The knobs that are not turned yet. */
  offer() {
    const used = new Set(this.rows.map((row) => row.name));
    const options = (stage) => [...this.knobs.values()].filter((knob) => knob.stage === stage && !used.has(knob.name)).map((knob) => h("option", { value: knob.name, title: knob.help }, knob.label));
    this.more.replaceChildren(h("option", { value: "" }, "Turn another knob…"), h("optgroup", { label: "Decoding" }, options("decode")), h("optgroup", { label: "Training" }, options("train")));
  }
}
