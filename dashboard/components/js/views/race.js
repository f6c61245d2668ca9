// The Race page: a form, the race as it goes, and the same again as a replay. Which race is shown stands in the address
// (race), so a reload or a link shows it.
// value: {target, trees, demos: [{label, prompt}]}

import { sign } from "../compare_charts.js";
import { h, setText } from "../dom.js";
import { isTyping } from "../keys.js";
import { Race } from "../race.js";
import { RaceForm } from "../race_form.js";
import { LaneCard, placeName, seconds } from "../race_lane.js";
import { decimal } from "../text.js";
import { message } from "./banner.js";
import { textBox } from "./command.js";
import { legend } from "./tree.js";

const SPEEDS = [[4, "4×"], [2, "2×"], [1, "1×"], [0.5, "½×"], [0.25, "¼×"], [0.1, "⅒×"]];
const CLOCKS = "The lanes take turns on one device, the one whose clock shows least next. A lane's clock counts only the time of its own steps: not the other lanes' turns, not waiting, not reading the prompt.";

export function mount(element, feed, { props }) {
  const page = new Page(feed, props.value);
  element.replaceChildren(page.node);
  window.headway.race = page.race;
  page.open();
  window.addEventListener("popstate", () => page.open());
}

class Page {
  constructor(feed, value) {
    this.feed = feed;
    this.race = new Race({ open: (url) => feed.openRun(url) });
    this.form = new RaceForm(feed, value, { start: (typed) => this.start(typed), stop: () => this.stop() });
    this.formTitle = h("summary", {}, "Prompt and lanes");
    this.setup = h("details", { class: "hw-card hw-race-setup", open: true }, this.formTitle, this.form.node);
    this.recentList = h("ul", {});
    this.recent = h("details", { class: "hw-card hw-recent", hidden: true }, h("summary", {}, "Recorded races"), this.recentList);
    this.problem = h("p", { class: "hw-banner", "data-kind": "error", role: "alert", hidden: true });
    this.welcome = h("section", { class: "hw-card hw-welcome" }, h("h1", {}, "Which drafter comes first?"),
      h("p", {}, "Two to four lanes answer one prompt side by side: drafters, trees, rules, versions of the target; plain decoding may be one of them. ",
        "Each lane shows its text, its trees and its own clock, and afterwards where the texts differ and who was first by how much."),
      h("p", {}, "Every race is recorded, so that it can be played again, slower or faster, and linked to."));
    this.stage = new Stage(feed, this.race);
    this.node = h("div", { class: "hw-race" }, this.setup, this.problem, this.welcome, this.stage.node, this.recent);
    this.asked = null; // the race whose standing was asked for
    this.scheduled = false;
    this.race.on((changed) => {
      if (changed.has("race")) this.stage.build();
      this.schedule();
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows what the address names. */
  async open() {
    const id = new URLSearchParams(window.location.search).get("race");
    this.listRecent();
    if (!id) {
      if (this.race.id) this.show({ race: null, lanes: [], missing: [] }); // back to where there was none
      if (!this.form.rows.length) await this.form.begin();
      return;
    }
    if (id === this.race.id) return;
    try {
      const told = await this.feed.ask(`/headway/races/${encodeURIComponent(id)}`);
      this.show(told);
      await this.form.write(told.form);
    } catch (error) {
      this.complain(error.message);
      if (!this.form.rows.length) await this.form.begin();
    }
  }

  async start(typed) {
    this.form.say("");
    const before = this.race.id && !this.race.over && this.own === this.race.id ? this.race.id : null;
    try {
      const told = await this.feed.ask("/headway/races", typed);
      if (before) await this.feed.ask(`/headway/races/${encodeURIComponent(before)}/stop`, {});
      this.own = told.race;
      const address = new URL(window.location.href);
      address.searchParams.set("race", told.race);
      window.history.pushState(null, "", address);
      this.show(told);
    } catch (error) {
      this.form.say(error.message);
    }
  }

  async stop() {
    try {
      await this.feed.ask(`/headway/races/${encodeURIComponent(this.race.id)}/stop`, {});
    } catch (error) {
      this.form.say(error.message);
    }
  }

  show(told) {
    this.complain("");
    this.asked = null;
    this.setup.open = !told.race;
    this.welcome.hidden = Boolean(told.race);
    this.race.show(told);
  }

  complain(sentence) {
    setText(this.problem, sentence);
    this.problem.hidden = !sentence;
  }

  async listRecent() {
    const races = await this.feed.ask("/headway/races").catch(() => []);
    this.recent.hidden = !races.length;
    this.recentList.replaceChildren(...races.map((race) => h("li", {}, h("a", { href: `/race?race=${encodeURIComponent(race.id)}`, class: race.id === this.race.id ? "current" : null },
      h("span", { class: "hw-recent-prompt" }, race.prompt || "(no text)"),
      h("small", {}, [...race.lanes, race.status === "finished" ? "" : race.status, new Date(race.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" })].filter(Boolean).join(", "))))));
  }

  /** All that changed in one frame is drawn once. */
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const draw = () => {
      this.scheduled = false;
      this.draw();
    };
    if (document.hidden) setTimeout(draw, 50);
    else requestAnimationFrame(draw);
  }

  draw() {
    const { race } = this;
    this.form.setRunning(race.lanes.length > 0 && !race.over);
    this.stage.draw();
    if (race.over && this.asked !== race.id) this.askStanding();
  }

  async askStanding() {
    const { id } = this.race;
    this.asked = id;
    try {
      const standing = await this.feed.ask(`/headway/races/${encodeURIComponent(id)}/standing`);
      if (id === this.race.id && standing) this.race.setStanding(standing);
    } catch (error) {
      this.complain(error.message);
    }
    this.listRecent();
  }

  key(event) {
    if (event.key !== " " || isTyping(event) || !this.race.lanes.length) return;
    if (event.target.closest && event.target.closest("button, a, input, summary")) return;
    event.preventDefault();
    this.race.toggle();
  }
}

/** What is below the form: the banner, who is where, the player, the lanes. */
class Stage {
  constructor(feed, race) {
    this.feed = feed;
    this.race = race;
    this.bannerText = h("span", { class: "hw-banner-text" });
    this.share = h("button", { type: "button", class: "hw-banner-share", title: "Slower, and its numbers count as measured beside other work", onclick: () => race.lanes[0].live.share() }, "Race on the CPU now");
    this.bannerBar = h("i", { class: "hw-banner-bar" });
    this.banner = h("div", { class: "hw-banner", role: "status", "aria-live": "polite", hidden: true }, this.bannerText, this.share, h("div", { class: "hw-banner-track" }, this.bannerBar));
    this.prompt = h("p", { class: "hw-race-prompt" });
    this.headline = h("p", { class: "hw-cmp-sentence", role: "status", "aria-live": "polite" });
    this.texts = h("ul", { class: "hw-race-texts" });
    this.tracks = h("ol", { class: "hw-race-tracks" });
    this.play = h("button", { type: "button", class: "hw-key", title: "Play or pause (space)", "aria-label": "Play or pause", onclick: () => race.toggle() }, "▶");
    this.slider = h("input", { type: "range", min: "0", max: "1", step: "1", value: "0", "aria-label": "Time on the lanes' clocks" });
    this.slider.addEventListener("input", () => { race.pause(); race.go(Number(this.slider.value)); });
    this.time = h("span", { class: "hw-place" });
    this.speed = h("select", { "aria-label": "Speed", title: "Speed of playing, against the lanes' own clocks", onchange: () => race.setSpeed(Number(this.speed.value)) }, SPEEDS.map(([value, name]) => h("option", { value, selected: value === 1 }, name)));
    this.newest = h("button", { type: "button", class: "hw-follow", onclick: () => race.newest() }, "Live");
    this.link = textBox();
    this.copy = h("button", { type: "button", class: "hw-small", onclick: () => this.link.show(new URL(`/race?race=${encodeURIComponent(race.id)}`, window.location.href).href) }, "Link to this race");
    this.player = h("div", { class: "hw-player", role: "group", "aria-label": "Replay" }, this.play, this.slider, this.time, this.speed, this.newest, this.copy);
    this.cards = [];
    this.told = null; // the standing whose sentences are written
    this.lanes = h("div", { class: "hw-race-lanes" });
    const words = h("p", { class: "hw-legend" }, h("span", { class: "hw-token drafted" }, "drafted and accepted"), h("span", { class: "hw-token" }, "the target's own token"),
      h("span", { class: "hw-token differs" }, "differs from another lane's text"));
    this.node = h("div", { class: "hw-race-stage hw-tree", hidden: true }, this.banner,
      h("section", { class: "hw-card hw-race-board" }, this.prompt, this.headline, this.texts, this.tracks, this.player, this.link.node, h("p", { class: "hw-muted" }, CLOCKS)),
      this.lanes, h("div", { class: "hw-race-legends" }, words, legend()));
  }

  build() {
    const { race } = this;
    this.node.hidden = !race.lanes.length;
    this.link.show("");
    this.cards = race.lanes.map((lane) => new LaneCard(lane));
    this.lanes.dataset.lanes = String(race.lanes.length);
    this.lanes.replaceChildren(...this.cards.map((card) => card.node));
    this.rows = race.lanes.map((lane) => {
      const bar = h("i", { class: `side-${lane.place}` });
      const at = h("span", { class: "hw-race-at" });
      return { bar, at, node: h("li", { "data-lane": lane.letter }, h("span", { class: "hw-race-who" }, sign(lane.place), h("b", {}, lane.letter)), h("span", { class: "hw-race-track" }, bar), at) };
    });
    this.tracks.replaceChildren(...this.rows.map((row) => row.node));
    const request = race.lanes.length ? race.lanes[0].request : null;
    setText(this.prompt, request ? request.raw_prompt || request.messages.filter((one) => one.role === "user").at(-1)?.content || "" : "");
  }

  draw() {
    const { race } = this;
    if (!race.lanes.length) return;
    const places = this.places();
    const base = this.base();
    race.lanes.forEach((lane, at) => {
      const count = race.shown(lane);
      const whole = lane.over && count === lane.count;
      const place = whole ? places.get(lane.letter) || null : null;
      this.cards[at].draw(count, { marks: this.marks(lane), place, base: base && base.lane !== lane ? base : null, following: race.time === null || race.playing });
      const now = lane.figures(count);
      const total = lane.over ? lane.figures(lane.count).tokens : lane.request.max_new_tokens;
      const { bar, at: words } = this.rows[at];
      bar.style.width = `${Math.min(100, (100 * now.tokens) / Math.max(1, total))}%`;
      setText(words, [`${now.tokens} tokens`, seconds(now.clock), placeName(place)].filter(Boolean).join(" · "));
    });
    this.say(base);
    this.drawPlayer();
    this.drawBanner();
  }

  /** letter -> 1 for the lane that ended first, of those that ended by themselves. */
  places() {
    const ended = this.race.lanes.filter((lane) => lane.over && lane.live.run.status === "finished");
    ended.sort((one, other) => one.figures(one.count).clock - other.figures(other.count).clock);
    return new Map(ended.map((lane, at) => [lane.letter, at + 1]));
  }

  /** The lane that speeds are told over: plain decoding, else the one that the standing names. */
  base() {
    const { race } = this;
    const named = race.standing ? race.standing.against : null;
    const lane = race.lanes.find((one) => one.letter === named) || race.lanes.find((one) => one.request.drafter === "none");
    if (!lane) return null;
    return { lane, name: lane.request.drafter === "none" ? "plain" : lane.letter, tokensPerS: lane.figures(race.shown(lane)).tokensPerS };
  }

  marks(lane) {
    const { race } = this;
    if (race.standing) return race.standing.marks[lane.letter] || null;
    return lane.leaves === null ? null : { against: race.lanes[0].letter, at: lane.leaves, stretches: [] };
  }

  say(base) {
    const { race } = this;
    const { standing } = race;
    this.texts.hidden = !standing;
    if (standing) {
      setText(this.headline, standing.speed);
      if (this.told === standing) return;
      this.told = standing;
      const notes = race.missing.map((letter) => `Lane ${letter} was deleted.`);
      this.texts.replaceChildren(...[...standing.texts, ...notes].map((text) => h("li", {}, text)));
      this.texts.dataset.same = String(standing.same);
      return;
    }
    const speeds = race.lanes.map((lane) => ({ lane, speed: lane.figures(lane.count).tokensPerS })).filter((one) => one.speed);
    speeds.sort((one, other) => other.speed - one.speed);
    const [ahead, next] = speeds;
    if (!next) {
      setText(this.headline, race.over ? "The race is over." : "The lanes are getting ready.");
      return;
    }
    const over = base && base.lane !== ahead.lane && base.tokensPerS ? base : { lane: next.lane, name: next.lane.letter, tokensPerS: next.speed };
    const words = over.name === "plain" ? "of plain decoding" : `of ${over.lane.letter}`;
    setText(this.headline, `${ahead.lane.letter} is ahead: ${decimal(ahead.speed / over.tokensPerS)} times the speed ${words} so far.`);
  }

  drawPlayer() {
    const { race } = this;
    const longest = Math.ceil(race.longest);
    const time = race.time === null ? race.longest : race.time;
    this.slider.max = String(Math.max(1, longest));
    this.slider.value = String(Math.round(time));
    this.slider.disabled = longest === 0;
    this.play.disabled = longest === 0;
    setText(this.play, race.playing ? "❚❚" : "▶");
    setText(this.time, `${seconds(time)} of ${seconds(race.longest)}`);
    setText(this.newest, race.over ? "End" : "Live");
    this.newest.classList.toggle("on", race.time === null);
    this.newest.classList.toggle("running", race.time === null && !race.over);
  }

  drawBanner() {
    const { lanes } = this.race;
    const telling = (status) => lanes.find((lane) => lane.live.run && lane.live.run.status === status);
    const failed = lanes.every((lane) => lane.live.run && lane.live.run.status === "failed");
    const lane = (failed ? lanes[0] : null) || telling("loading") || telling("queued");
    const said = lane ? message(lane.live) : { kind: "quiet", sentence: "", fraction: null };
    this.banner.hidden = !said.sentence;
    this.banner.dataset.kind = said.kind;
    setText(this.bannerText, said.sentence.replace("yours", "this race"));
    this.share.hidden = !(lane && lane.live.run.status === "queued" && lane.live.run.holder);
    this.bannerBar.style.width = said.fraction === null ? "0" : `${Math.round(100 * said.fraction)}%`;
    this.banner.classList.toggle("has-bar", said.fraction !== null);
  }
}
