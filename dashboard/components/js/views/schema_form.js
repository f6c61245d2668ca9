// A form made from a config's schema: groups of fields, each with its help, its bounds and what is wrong with it.
// A field's place in the config is called `field`, since Gradio takes anything with a `path` for a file.
// value: {name, fields, groups: [[name, label]], typed: {path: text}, problems: {path: sentence}, fill, buttons}
// A new `fill` writes `typed` into the fields; otherwise what a person types is left alone.
// Triggers edit {typed, field} a moment after the last change, and act {action, typed}.

import { busyNote } from "../busy.js";
import { h, setText } from "../dom.js";
import { knobMark } from "../terms.js";

const EDIT_MS = 300;
const forms = new Map(); // name -> what is typed in the form of that name
const OTHER = "\u0000other";
const DEVICE = "device"; // a form with this field offers the CPU while somebody else has the device

/** What is typed in the page's form of this name, {} while there is none. */
export function typedIn(name) {
  return forms.has(name) ? forms.get(name)() : {};
}

export function mount(element, feed, { props, watch, trigger }) {
  const form = h("form", { class: "hw-schema", novalidate: true, autocomplete: "off" });
  const general = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const buttons = h("div", { class: "hw-schema-buttons" });
  element.replaceChildren(form);
  let rows = new Map();
  let shape = "";
  let fill = null;
  let timer = null;
  const typed = () => Object.fromEntries([...rows].map(([path, row]) => [path, row.read()]));
  const busy = busyNote(feed, {
    device: () => (rows.has(DEVICE) ? rows.get(DEVICE).read() : ""),
    choose: (device) => { rows.get(DEVICE).write(device); edited(DEVICE); },
  });
  const edited = (path) => {
    busy.draw();
    clearTimeout(timer);
    timer = setTimeout(() => trigger("edit", { typed: typed(), field: path }), EDIT_MS);
  };
  form.addEventListener("submit", (event) => event.preventDefault());

  const take = () => {
    const value = props.value;
    if (!value || !value.fields) return;
    forms.set(value.name, typed);
    const now = JSON.stringify([value.fields, value.groups, value.buttons]);
    if (now !== shape) {
      const before = shape ? typed() : {};
      shape = now;
      rows = build(form, value, edited);
      buttons.replaceChildren(...(value.buttons || []).map((button) => actButton(button, () => {
        clearTimeout(timer);
        trigger("act", { action: button.action, typed: typed() });
      })));
      form.append(general, ...(rows.has(DEVICE) ? [busy.node] : []), buttons);
      for (const [path, text] of Object.entries(before)) if (rows.has(path)) rows.get(path).write(text);
    }
    if (value.fill !== fill) {
      fill = value.fill;
      for (const [path, row] of rows) if (path in value.typed) row.write(value.typed[path]);
      busy.draw();
    }
    for (const [path, row] of rows) row.complain((value.problems || {})[path]);
    setText(general, (value.problems || {})[""] || "");
    general.hidden = !general.textContent;
  };
  watch("value", take);
  take();
}

function actButton(button, act) {
  return h("button", { type: "button", class: button.primary ? "hw-primary" : "hw-small", "data-action": button.action, onclick: act }, button.label);
}

/** Fills the form with its groups; {path: row}. */
function build(form, value, edited) {
  const rows = new Map();
  const groups = [];
  for (const [name, label] of value.groups) {
    const fields = value.fields.filter((field) => field.group === name);
    if (!fields.length) continue;
    const main = [];
    const more = [];
    for (const field of fields) {
      const row = rowOf(field, () => edited(field.field));
      rows.set(field.field, row);
      (field.main ? main : more).push(row.node);
    }
    groups.push(h("fieldset", { class: "hw-group" }, h("legend", null, label), h("div", { class: "hw-fields" }, main),
      more.length ? h("details", { class: "hw-more-fields" }, h("summary", null, `${more.length} more`), h("div", { class: "hw-fields" }, more)) : null));
  }
  form.replaceChildren(...groups);
  return rows;
}

function rowOf(field, edited) {
  const id = `hw-f-${field.field.replaceAll(".", "-")}`;
  const problem = h("p", { class: "hw-problem", id: `${id}-problem`, hidden: true });
  const input = inputOf(field, id, edited);
  const label = h("label", { for: id }, field.label);
  const mark = field.knob ? knobMark(field.knob, field.label) : null;
  const bounds = field.bounds && field.kind !== "switch" ? h("span", { class: "hw-bounds" }, field.bounds) : null;
  const help = h("p", { class: "hw-help", id: `${id}-help` }, field.help);
  const wide = ["text", "texts", "choice"].includes(field.kind) && (field.other || field.kind !== "choice");
  const node = h("div", { class: `hw-field ${field.kind}${wide ? " wide" : ""}`, "data-path": field.field },
    field.kind === "switch" ? [h("span", { class: "hw-switch" }, input.node, label, mark)] : [h("span", { class: "hw-field-head" }, h("span", {}, label, mark), bounds), input.node],
    field.help ? help : null, problem);
  const described = `${field.help ? `${id}-help ` : ""}${id}-problem`;
  for (const part of input.parts) part.setAttribute("aria-describedby", described);
  return {
    node,
    read: input.read,
    write: input.write,
    complain(sentence) {
      setText(problem, sentence || "");
      problem.hidden = !sentence;
      node.classList.toggle("wrong", Boolean(sentence));
      for (const part of input.parts) part.setAttribute("aria-invalid", String(Boolean(sentence)));
      if (sentence) reveal(node);
    },
  };
}

function reveal(node) {
  const details = node.closest("details");
  if (details) details.open = true;
}

function inputOf(field, id, edited) {
  if (field.kind === "choice") return choice(field, id, edited);
  if (field.kind === "switch") {
    const box = h("input", { type: "checkbox", id, onchange: edited });
    box.checked = Boolean(field.default);
    return { node: box, parts: [box], read: () => box.checked, write: (value) => { box.checked = Boolean(value); } };
  }
  const tag = field.kind === "texts" ? "textarea" : "input";
  const numeric = field.kind === "whole" || field.kind === "number";
  const box = h(tag, { id, type: tag === "input" ? "text" : null, rows: tag === "textarea" ? 3 : null, spellcheck: "false",
    inputmode: numeric ? "decimal" : null, placeholder: field.optional ? "not set" : null, oninput: edited });
  box.value = field.default ?? "";
  return { node: box, parts: [box], read: () => box.value, write: (value) => { box.value = value ?? ""; } };
}

/** A list to choose from; with `other` its last entry opens a text field. {node, parts, read, write}. */
export function choice(field, id, edited) {
  const list = h("select", { id }, field.optional ? h("option", { value: "" }, "not set") : null,
    field.choices.map(([label, value]) => h("option", { value: String(value) }, label)),
    field.other ? h("option", { value: OTHER }, "Another…") : null);
  const box = h("input", { type: "text", id: `${id}-other`, spellcheck: "false", "aria-label": `${field.label}: another`, placeholder: "path or name", hidden: true, oninput: edited });
  const show = () => { box.hidden = list.value !== OTHER; };
  list.addEventListener("change", () => {
    show();
    if (!box.hidden) box.focus();
    edited();
  });
  const write = (value) => {
    const text = String(value ?? "");
    const known = [...list.options].some((option) => option.value === text);
    list.value = known ? text : field.other && text ? OTHER : list.options[0] ? list.options[0].value : "";
    box.value = known ? "" : text;
    show();
  };
  write(field.default);
  const read = () => (list.value === OTHER ? box.value : list.value);
  return { node: h("div", { class: "hw-choice" }, list, field.other ? box : null), parts: [list, box], read, write };
}
