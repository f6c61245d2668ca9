// Bring a file: drop it, choose it, or type where it lies on the machine that Headway runs on.

import { h, setText } from "../dom.js";

export function bringCard(page) {
  const file = h("input", { type: "file", id: "hw-data-file", accept: ".jsonl,.json,.ndjson,.txt,.npz" });
  const limit = h("span", {}, "");
  const drop = h("label", { class: "hw-drop", for: "hw-data-file" }, h("b", {}, "Choose a file"), h("span", {}, " or drop it here"), limit, file);
  const path = h("input", { type: "text", id: "hw-data-path", spellcheck: "false", placeholder: "/data/prompts.jsonl" });
  const licence = h("input", { type: "text", id: "hw-data-licence", maxlength: 500, placeholder: "e.g. Apache-2.0, or “internal only”" });
  const add = h("button", { type: "submit", class: "hw-small", "data-action": "bring" }, "Bring it");
  const track = h("div", { class: "hw-job-track", role: "progressbar", "aria-label": "Reading the file", hidden: true }, h("i", {}));
  const said = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const done = h("p", { class: "hw-muted", role: "status", hidden: true });
  const form = h("form", { class: "hw-card hw-bring", novalidate: true }, h("h3", {}, "Bring prompts or answers"), drop,
    h("label", { class: "hw-line-label", for: "hw-data-path" }, "or its path on Headway's machine"), h("div", { class: "hw-with-button" }, path, add),
    h("label", { class: "hw-line-label", for: "hw-data-licence" }, "Licence note (kept with the data set)"), licence,
    track, said, done,
    h("p", { class: "hw-muted" }, "JSONL or one JSON array with turns, messages, ShareGPT conversations or Alpaca instructions; rows may carry tools and special_tokens. Answers that distil wrote work too."));

  let busy = false;
  const tell = (fraction) => {
    track.hidden = false;
    track.classList.toggle("waiting", fraction === null);
    track.firstChild.style.width = `${100 * (fraction ?? 0)}%`;
  };
  const run = async (work) => {
    if (busy) return;
    busy = true;
    add.disabled = true;
    said.hidden = true;
    done.hidden = true;
    tell(null);
    try {
      const result = await work();
      await page.brought(result.id);
      setText(done, result.known ? "This content was here already; nothing was counted twice." : "Brought and counted.");
      done.hidden = false;
      path.value = "";
      file.value = "";
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
    track.hidden = true;
    busy = false;
    add.disabled = false;
  };
  const send = (chosen) => run(async () => {
    if (chosen.size > page.maxUpload) throw new Error(`${chosen.name} has ${megabytes(chosen.size)}, but the browser may send at most ${megabytes(page.maxUpload)}; type its path instead, which has no limit.`);
    if (!chosen.size) throw new Error(`${chosen.name} is empty; choose another file.`);
    return page.finished(await upload(chosen, licence.value, tell), tell);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(() => page.work("/headway/data/bring", { path: path.value, licence: licence.value }, tell));
  });
  file.addEventListener("change", () => { if (file.files.length) send(file.files[0]); });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
  page.on(() => setText(limit, page.maxUpload ? `up to ${megabytes(page.maxUpload)}; larger ones by path` : ""));
  return form;
}

/** Sends the bytes as they are, with progress; gives the task that counts them. */
function upload(file, licence, tell) {
  const query = new URLSearchParams({ name: file.name, licence });
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/headway/data/upload?${query}`);
    request.responseType = "json";
    request.upload.onprogress = (event) => tell(event.lengthComputable ? event.loaded / event.total : null);
    request.onload = () => {
      const found = request.response || {};
      if (request.status === 200 && found.task) done(found.task);
      else fail(new Error(found.error || `Headway answered ${request.status}.`));
    };
    request.onerror = () => fail(new Error("The file could not be sent; is Headway still running?"));
    request.send(file);
  });
}

export function megabytes(count) {
  if (count === null || count === undefined) return "";
  if (count < 1000) return `${count} bytes`;
  const [size, unit] = count < 1e6 ? [count / 1e3, "kB"] : count < 1e9 ? [count / 1e6, "MB"] : [count / 1e9, "GB"];
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}
