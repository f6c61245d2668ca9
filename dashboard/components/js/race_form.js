// The form of the Race page: a prompt and two to four lanes, a row each. It knows what a lane is made of and asks the
// server what there is to choose from; what a form means is the server's.

import { sign } from "./compare_charts.js";
import { h, setText } from "./dom.js";
import { textBox } from "./views/command.js";
import { choice } from "./views/schema_form.js";

export const LETTERS = "ABCD";
const FEWEST = 2;
const OWN_TREE = "the drafter's own";
const PLAIN = "none";
const LOOK_MS = 300; // after the last letter of a target's name

export class RaceForm {
  /** value: {target, trees, demos}; `act` has start(values) and stop(). */
  constructor(feed, value, act) {
    this.feed = feed;
    this.value = value;
    this.rows = [];
    this.prompt = h("textarea", { id: "hw-race-prompt", rows: 2, placeholder: "What all lanes answer", "aria-label": "Prompt" });
    this.prompt.value = value.demos.length ? value.demos[0].prompt : "";
    const chips = value.demos.map((demo) => h("button", { type: "button", class: "hw-chip", title: demo.prompt, onclick: () => { this.prompt.value = demo.prompt; } }, demo.label));
    this.list = h("div", { class: "hw-race-rows" });
    this.add = h("button", { type: "button", class: "hw-small", onclick: () => { this.row(this.another()); this.name(); } }, "Add a lane");
    this.longest = h("input", { type: "text", id: "hw-race-longest", inputmode: "numeric", value: "128" });
    this.seed = h("input", { type: "text", id: "hw-race-seed", inputmode: "numeric", value: "0" });
    this.system = h("input", { type: "text", id: "hw-race-system", placeholder: "none" });
    this.start = h("button", { type: "submit", class: "hw-primary", id: "hw-race-start" }, "Start the race");
    this.text = textBox();
    const taken = (form, label) => h("button", { type: "button", class: "hw-small", onclick: () => this.take(form) }, label);
    this.stop = h("button", { type: "button", class: "hw-small", id: "hw-race-stop", hidden: true, onclick: () => act.stop() }, "Stop");
    this.problem = h("p", { class: "hw-problem", role: "alert", hidden: true });
    this.node = h("form", { class: "hw-schema hw-race-form", novalidate: true, autocomplete: "off", onsubmit: (event) => { event.preventDefault(); act.start(this.typed()); } },
      h("div", { class: "hw-field" }, h("label", { for: "hw-race-prompt" }, "Prompt"), this.prompt, h("div", { class: "hw-chips", "aria-label": "Example prompts" }, chips)),
      this.list,
      h("div", { class: "hw-race-common" }, this.add,
        field("Longest answer", this.longest), field("Seed", this.seed), field("System prompt", this.system),
        h("span", { class: "hw-grow" }), taken("command", "Copy as command"), taken("yaml", "As YAML"), this.stop, this.start),
      this.problem, this.text.node);
  }

  /** Shows what is typed as text to take along. */
  async take(form) {
    this.say("");
    try {
      this.text.show((await this.feed.ask(`/headway/races/as/${form}`, this.typed())).text);
    } catch (error) {
      this.text.show("");
      this.say(error.message);
    }
  }

  /** The first two lanes: plain decoding, and the first drafter there is. */
  async begin() {
    await this.write({ lanes: [{ drafter: PLAIN }, { drafter: null }] });
  }

  /** Fills the form; what `typed` lacks keeps its value. */
  async write(typed) {
    if (typed.prompt !== undefined) this.prompt.value = typed.prompt;
    if (typed.system !== undefined) this.system.value = typed.system;
    if (typed.max_new_tokens !== undefined) this.longest.value = String(typed.max_new_tokens);
    if (typed.seed !== undefined) this.seed.value = String(typed.seed);
    this.rows = [];
    this.list.replaceChildren();
    const rows = typed.lanes.map((lane) => this.row(lane));
    this.name();
    await Promise.all(rows);
    this.node.dataset.ready = "true";
  }

  typed() {
    return { prompt: this.prompt.value, system: this.system.value, max_new_tokens: number(this.longest.value), seed: number(this.seed.value),
      lanes: this.rows.map((row) => row.read()) };
  }

  say(problem) {
    setText(this.problem, problem || "");
    this.problem.hidden = !problem;
  }

  setRunning(running) {
    this.stop.hidden = !running;
    setText(this.start, running ? "Start another race" : "Start the race");
  }

  /** A lane like the last one that drafts, with another tree, so that two alike are rare. */
  another() {
    const lanes = this.rows.map((row) => row.read());
    const last = lanes.findLast((lane) => lane.drafter !== PLAIN) || { ...lanes.at(-1), drafter: null };
    const used = new Set(this.rows.map((row) => row.read().tree || OWN_TREE));
    return { ...last, tree: this.value.trees.find((tree) => !used.has(tree)) || "" };
  }

  async row(lane) {
    const row = new Row(this, lane);
    this.rows.push(row);
    this.list.append(row.node);
    await row.offer(lane.drafter);
  }

  remove(row) {
    this.rows = this.rows.filter((other) => other !== row);
    row.node.remove();
    this.name();
  }

  /** Letters follow the order of the rows. */
  name() {
    this.rows.forEach((row, place) => row.setPlace(place, this.rows.length > FEWEST));
    this.add.disabled = this.rows.length >= LETTERS.length;
    this.add.title = this.add.disabled ? `At most ${LETTERS.length} lanes` : "";
  }
}

let made = 0;

class Row {
  constructor(form, lane) {
    this.form = form;
    this.id = `hw-lane-${made += 1}`;
    this.timer = null;
    this.offered = false;
    const { target, trees } = form.value;
    const own = lane.target || target;
    this.target = this.choice("Target", "target", [[own, own]], own, () => this.look());
    this.drafter = this.choice("Drafter", "drafter", [["None: plain decoding", PLAIN]], lane.drafter || PLAIN, () => this.fit());
    this.tree = this.choice("Tree", "tree", trees.map((tree) => [tree, tree]), lane.tree || OWN_TREE, () => {});
    const depths = [["All levels", "all"], ...[1, 2, 3, 4, 5, 6, 7, 8].map((depth) => [`${depth} level${depth > 1 ? "s" : ""}`, String(depth)])];
    this.depth = this.choice("Depth", "depth", depths, String(lane.max_depth ?? "all"), () => {}, false);
    this.temperature = h("input", { type: "text", id: `${this.id}-temperature`, inputmode: "decimal", value: String(lane.temperature ?? 0) });
    this.rule = h("select", { id: `${this.id}-rule` }, h("option", { value: "exact" }, "Exact"), h("option", { value: "typical" }, "Typical (approximate)"));
    this.rule.value = lane.rule || "exact";
    this.mark = h("span", { class: "hw-race-letter" });
    this.away = h("button", { type: "button", class: "hw-icon", onclick: () => form.remove(this) }, "✕");
    this.node = h("div", { class: "hw-race-row", role: "group" }, this.mark,
      labelled("Target", this.target), labelled("Drafter", this.drafter), labelled("Tree", this.tree), labelled("Depth", this.depth),
      field("Temperature", this.temperature), field("Rule", this.rule), this.away);
  }

  choice(label, name, choices, value, edited, other = true) {
    return choice({ label, choices, default: value, other }, `${this.id}-${name}`, edited);
  }

  setPlace(place, removable) {
    const letter = LETTERS[place];
    this.mark.replaceChildren(sign(place), h("b", {}, letter));
    this.node.setAttribute("aria-label", `Lane ${letter}`);
    this.node.dataset.lane = letter;
    this.away.setAttribute("aria-label", `Remove lane ${letter}`);
    this.away.title = removable ? `Remove lane ${letter}` : "A race has at least two lanes";
    this.away.disabled = !removable;
  }

  /** Another target was chosen or typed. */
  look() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.offer(), LOOK_MS);
  }

  /** Asks what there is for the target; with `wanted` null the first drafter that drafts is taken. */
  async offer(wanted = this.drafter.read()) {
    const asked = this.target.read();
    const before = this.drafter.read();
    let found;
    try {
      found = await this.form.feed.ask(`/headway/races/choices?${new URLSearchParams({ target: asked })}`);
    } catch (error) {
      this.form.say(error.message);
      return;
    }
    if (asked !== this.target.read()) return; // chosen again meanwhile
    if (!this.offered) { // once: what is typed into it must not be taken away
      this.offered = true;
      const targets = found.targets.some(([, value]) => value === asked) ? found.targets : [...found.targets, [asked, asked]];
      this.target = this.swap(this.target, "Target", "target", targets, asked, () => this.look());
    }
    const first = found.drafters.find(([, value]) => value !== PLAIN);
    const now = this.drafter.read();
    const value = now !== before ? now : wanted || (first ? first[1] : PLAIN);
    this.drafter = this.swap(this.drafter, "Drafter", "drafter", found.drafters, value, () => this.fit());
    this.fit();
  }

  swap(before, label, name, choices, value, edited) {
    const next = this.choice(label, name, choices, value, edited);
    before.node.replaceWith(next.node);
    return next;
  }

  /** Plain decoding has neither tree nor depth. */
  fit() {
    const plain = this.drafter.read() === PLAIN;
    for (const part of [...this.tree.parts, ...this.depth.parts]) part.disabled = plain;
  }

  read() {
    const tree = this.tree.read();
    const plain = this.drafter.read() === PLAIN;
    return { target: this.target.read(), drafter: this.drafter.read(), tree: plain || tree === OWN_TREE ? "" : tree,
      max_depth: plain ? "all" : this.depth.read(), temperature: number(this.temperature.value), rule: this.rule.value };
  }
}

function field(label, input) {
  return h("div", { class: "hw-field" }, h("label", { for: input.id }, label), input);
}

function labelled(label, picker) {
  return h("div", { class: "hw-field" }, h("label", { for: picker.parts[0].id }, label), picker.node);
}

/** null for what is no number: the server says which field that is. */
function number(text) {
  const plain = String(text).trim().replace(",", ".");
  return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : null;
}
