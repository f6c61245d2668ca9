// Two checks before anything is trained: how the rows split into training and held-out, and which prompts share eight
// words in a row with an evaluation set.

import { h, setText } from "../dom.js";

export function splitCard(page) {
  const slider = h("input", { type: "range", min: 1, max: 30, step: 0.5, value: 5, id: "hw-split", "aria-describedby": "hw-split-counts" });
  const share = h("output", { for: "hw-split" });
  const trained = h("i", { class: "trained" });
  const counts = h("p", { id: "hw-split-counts", class: "hw-split-counts" });
  const why = h("p", { class: "hw-muted" });
  const save = h("button", { type: "button", class: "hw-small", "data-action": "split" }, "Save as two data sets");
  const said = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const box = h("section", { class: "hw-card hw-split" }, h("h3", {}, "Split"),
    h("div", { class: "hw-split-line" }, h("label", { for: "hw-split" }, "Held out"), slider, share),
    h("div", { class: "hw-split-bar", "aria-hidden": "true" }, trained), counts, why, h("div", { class: "hw-actions" }, save), said);
  const draw = () => {
    const shown = page.shown;
    if (!shown) return;
    const fraction = Number(slider.value) / 100;
    setText(share, `${Number(slider.value)} %`);
    const held = shown.places ? shown.places.slice(0, Math.round(fraction * shown.places.length)).reduce((sum, count) => sum + count, 0) : null;
    const words = held === null ? ["These answers were not counted by place; bring their file to see the split."]
      : [h("b", {}, (shown.rows - held).toLocaleString("en")), " training / ", h("b", {}, held.toLocaleString("en")), " held-out"];
    counts.replaceChildren(...words);
    trained.style.width = held === null ? "0" : `${(100 * (shown.rows - held)) / shown.rows}%`;
    save.hidden = shown.kind !== "prompts";
    setText(why, shown.kind === "prompts"
      ? "By the hash of each prompt: equal prompts stand on one side, and rows added later move none of these."
      : "By the hash of each prompt; training splits exactly so by itself, all turns and temperatures of a prompt on one side.");
  };
  slider.addEventListener("input", draw);
  page.on((changed) => {
    if (!changed.has("shown")) return;
    said.hidden = true;
    draw();
  });
  save.addEventListener("click", async () => {
    save.disabled = true;
    said.hidden = true;
    try {
      const made = await page.work(`/headway/data/sets/${encodeURIComponent(page.shown.id)}/split`, { fraction: Number(slider.value) / 100 });
      await page.brought(made.ids[0]);
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
    save.disabled = false;
  });
  return box;
}

export function leakCard(page) {
  const choices = h("div", { class: "hw-leak-choices" });
  const paths = h("textarea", { id: "hw-leak-paths", rows: 2, spellcheck: "false", placeholder: "/data/mt_bench.jsonl" });
  const start = h("button", { type: "button", class: "hw-small", "data-action": "leaks" }, "Check for leaks");
  const track = h("div", { class: "hw-job-track", role: "progressbar", "aria-label": "Comparing", hidden: true }, h("i", {}));
  const said = h("p", { class: "hw-problem", role: "alert", hidden: true });
  const found = h("div", { class: "hw-leaks", role: "status" });
  const box = h("section", { class: "hw-card hw-leak" }, h("h3", {}, "Leak check"),
    h("p", { class: "hw-muted" }, "Finds prompts that share eight words in a row with the sets you will judge by."),
    choices, h("label", { class: "hw-line-label", for: "hw-leak-paths" }, "Evaluation files, one path a line"), paths, h("div", { class: "hw-actions" }, start), track, said, found);
  let of = null;
  page.on(() => {
    const shown = page.shown;
    box.hidden = !shown || shown.kind !== "prompts";
    if (!shown) return;
    if (of !== shown.id) {
      of = shown.id;
      found.replaceChildren();
      said.hidden = true;
    }
    const ticked = new Set([...choices.querySelectorAll("input:checked")].map((input) => input.value));
    choices.replaceChildren(...(page.sets || []).filter((one) => one.kind === "prompts" && one.id !== shown.id).map((one) => {
      const input = h("input", { type: "checkbox", value: one.id });
      input.checked = ticked.has(one.id);
      return h("label", {}, input, h("span", {}, one.name));
    }));
  });
  start.addEventListener("click", async () => {
    const others = [...choices.querySelectorAll("input:checked")].map((input) => input.value);
    start.disabled = true;
    said.hidden = true;
    found.replaceChildren();
    track.hidden = false;
    try {
      const id = page.shown.id;
      const report = await page.work(`/headway/data/sets/${encodeURIComponent(id)}/leaks`, { others, paths: paths.value }, (fraction) => { track.firstChild.style.width = `${100 * (fraction ?? 0)}%`; });
      if (page.shown && page.shown.id === id) found.replaceChildren(...drawn(report));
    } catch (error) {
      setText(said, error.message);
      said.hidden = false;
    }
    track.hidden = true;
    start.disabled = false;
  });
  return box;
}

function drawn(report) {
  const against = `${report.num_others.toLocaleString("en")} rows of ${report.compared.join(", ")}`;
  if (!report.num_hits) return [h("p", { class: "hw-clean" }, `✓ None of ${report.num_prompts.toLocaleString("en")} prompts shares eight words with ${against}.`)];
  const some = report.hits.length < report.num_hits ? ` The first ${report.hits.length} are listed.` : "";
  return [h("p", { class: "hw-leaking" }, `✕ ${report.num_leaking.toLocaleString("en")} of ${report.num_prompts.toLocaleString("en")} prompts share eight words with ${against}.${some}`),
    h("ul", {}, report.hits.map((hit) => h("li", {}, h("b", {}, hit.id), " and ", h("b", {}, hit.other), ` in ${hit.file}`, h("q", {}, hit.words))))];
}
