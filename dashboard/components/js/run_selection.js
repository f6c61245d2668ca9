// What is done with selected runs: compare, tag, note, throw away, take back. The selection survives filtering and paging.

import { h, setText } from "./dom.js";

const MAX_COMPARED = 8;
const UNDO_MS = 15_000;

export function mountSelection(table) {
  const picked = new Map(); // id -> row
  const count = h("b", {});
  const compare = h("button", { type: "button", class: "hw-small", onclick: () => table.comparison.show([...picked.keys()]) }, "Compare");
  const sideBySide = h("button", { type: "button", class: "hw-small", onclick: () => compareAll() }, "Side by side");
  const tagText = h("input", { type: "text", placeholder: "tag, another tag", "aria-label": "Tags", maxlength: "200" });
  const add = h("button", { type: "button", class: "hw-small", onclick: () => tag(true) }, "Add tags");
  const remove = h("button", { type: "button", class: "hw-small", onclick: () => tag(false) }, "Remove tags");
  const notes = h("button", { type: "button", class: "hw-small", onclick: () => openNotes() }, "Notes");
  const trash = h("button", { type: "button", class: "hw-small", onclick: () => throwAway() }, "Delete");
  const restore = h("button", { type: "button", class: "hw-small", onclick: () => takeBack([...picked.keys()]) }, "Take back");
  const none = h("button", { type: "button", class: "hw-small", onclick: () => clear() }, "Select none");
  const bar = h("div", { class: "hw-selection", role: "group", "aria-label": "Selected runs" }, count, compare, sideBySide, tagText, add, remove, notes, trash, restore, none);
  const undoText = h("span", {});
  const undo = h("button", { type: "button", class: "hw-small" }, "Undo");
  const undoBar = h("div", { class: "hw-undo", role: "status", hidden: true }, undoText, undo);
  const noteText = h("textarea", { rows: "3", "aria-label": "Notes", placeholder: "What you want to remember about this run" });
  const noteSave = h("button", { type: "button", class: "hw-small" }, "Save the notes");
  const noteBox = h("div", { class: "hw-notes", hidden: true }, noteText, noteSave);
  const problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const node = h("div", {}, bar, noteBox, undoBar, problem);
  let timer = null;

  async function attempt(work) {
    problem.hidden = true;
    try {
      await work();
    } catch (error) {
      setText(problem, error.message);
      problem.hidden = false;
    }
  }
  /** The Compare page, with a side for each setting that the picked runs have. */
  function compareAll() {
    attempt(async () => {
      const { sides } = await table.feed.ask("/headway/compare/sides", { ids: [...picked.keys()] });
      window.location.assign(`/compare?${new URLSearchParams(sides.map((side) => ["side", side]))}`);
    });
  }
  const send = (action, values) => table.feed.ask(`/headway/table/${action}`, values);

  function tag(adding) {
    const tags = tagText.value.split(",").map((one) => one.trim()).filter(Boolean);
    if (!tags.length) {
      tagText.focus();
      return;
    }
    attempt(async () => {
      await send("tag", { ids: [...picked.keys()], add: adding ? tags : [], remove: adding ? [] : tags });
      tagText.value = "";
      await table.load();
    });
  }
  function openNotes() {
    const [id] = picked.keys();
    attempt(async () => {
      const found = await table.feed.ask(`/headway/table/runs/${encodeURIComponent(id)}`);
      noteText.value = found.notes;
      noteBox.hidden = false;
      noteText.focus();
      noteSave.onclick = () => attempt(async () => {
        await send("note", { id, text: noteText.value });
        noteBox.hidden = true;
      });
    });
  }
  function throwAway() {
    attempt(async () => {
      const { moved } = await send("trash", { ids: [...picked.keys()] });
      clear();
      offer(moved);
      await table.load();
    });
  }
  function takeBack(ids) {
    attempt(async () => {
      await send("restore", { ids });
      clear();
      undoBar.hidden = true;
      await table.load();
    });
  }
  function offer(ids) {
    clearTimeout(timer);
    setText(undoText, `${ids.length === 1 ? "One run is" : `${ids.length} runs are`} in the waste basket.`);
    undo.onclick = () => takeBack(ids);
    undoBar.hidden = false;
    timer = setTimeout(() => { undoBar.hidden = true; }, UNDO_MS);
  }
  function clear() {
    picked.clear();
    draw();
    mark();
  }
  function mark() {
    table.body.querySelectorAll("tr[data-run]").forEach((line) => {
      const chosen = picked.has(line.dataset.run);
      line.classList.toggle("picked", chosen);
      line.querySelector("input").checked = chosen;
    });
    const all = table.body.querySelector("th.pick input");
    if (all) all.checked = table.rows.length > 0 && table.rows.every((row) => picked.has(row.id));
  }
  function draw() {
    bar.hidden = !picked.size;
    noteBox.hidden = true;
    setText(count, `${picked.size} selected`);
    const trashed = table.query.trashed === "1";
    compare.disabled = picked.size < 2 || picked.size > MAX_COMPARED;
    compare.title = compare.disabled ? `Select two to ${MAX_COMPARED} runs` : "What differs, and what came of it";
    sideBySide.disabled = picked.size < 2;
    sideBySide.title = "Runs with the same settings together, on the prompts they have in common, with intervals";
    notes.hidden = picked.size !== 1;
    trash.hidden = trashed;
    restore.hidden = !trashed;
  }
  function toggle(row, chosen = !picked.has(row.id)) {
    if (chosen) picked.set(row.id, row);
    else picked.delete(row.id);
    draw();
    mark();
  }
  function set(rows, chosen) {
    for (const row of rows) {
      if (chosen) picked.set(row.id, row);
      else picked.delete(row.id);
    }
    draw();
    mark();
  }
  bar.hidden = true;
  return { node, has: (id) => picked.has(id), toggle, set, clear, draw };
}
