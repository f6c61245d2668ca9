// The right side of the Serve page: a server with what it counts while it runs, a load test with its curves, or a
// comparison with Headway's own decoding; and the others.
//
// value: {vllm: {ready, words}, job: id or null, error: sentence or null, at}.
// What a server counts comes with the page's feed, row by row; tables are asked for when the job says that it has come further.

import { h, setText } from "../dom.js";
import { ShownJob, mountPage } from "../shown_job.js";
import { comparisonParts } from "../serve_comparison.js";
import { loadParts } from "../serve_load.js";
import { LiveServer } from "../serve_live.js";

const QUIETEST_MS = 1500;

export function mount(element, feed, gradio) {
  mountPage(element, gradio, new Page(feed));
}

class Page extends ShownJob {
  constructor(feed) {
    super(feed, { kind: ["vllm", "load-test", "compare-serving"], title: "Servers and measurements", quietestMs: QUIETEST_MS, step: (done) => Math.floor(4 * done) });
    this.installed = h("p", { class: "hw-serve-vllm" });
    this.live = new LiveServer(feed);
    this.parts = h("div", { class: "hw-serve-parts" });
    this.waiting = h("p", { class: "hw-nothing" });
    this.shown = h("section", { class: "hw-card hw-serve-card", hidden: true }, this.card, this.notes, this.live.node, this.parts, this.waiting,
      h("div", { class: "hw-serve-foot" }, this.conditions, h("span", { class: "hw-grow" }), this.csv, this.json));
    this.welcome = h("section", { class: "hw-card hw-welcome", hidden: true },
      h("h1", {}, "What does a drafter bring in the engine that serves it?"),
      h("p", {}, "A vLLM server with the drafter runs as a process of its own. Its drafts are counted live; a load test measures it with and without the drafter, ",
        "for one client up to many; and a comparison says whether it accepts what Headway's own decoding accepts."),
      h("p", {}, "vLLM drafts chains, no trees. Choose target and drafter in the form and start a server, or measure straight away: vLLM is then started for it."));
    this.node = h("div", { class: "hw-serve" }, this.installed, this.problem, this.welcome, this.shown, this.list);
  }

  take(value) {
    if (value && value.vllm) {
      setText(this.installed, value.vllm.ready ? `${value.vllm.words} is installed here.` : value.vllm.words);
      this.installed.classList.toggle("missing", !value.vllm.ready);
    }
    super.take(value);
  }

  reset() {
    this.live.follow(null);
    this.parts.replaceChildren();
    setText(this.waiting, "");
  }

  addresses(id) {
    const place = `/headway/serving/${encodeURIComponent(id)}`;
    return { csv: `${place}.csv`, json: `${place}.json` };
  }

  async load(id) {
    try {
      const data = await this.feed.ask(`/headway/serving/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this._draw(data);
    } catch (error) {
      if (id === this.id) this.complain(error.message);
    }
  }

  _draw(data) {
    this.drawHead(data, null);
    const open = ["queued", "running"].includes(data.job.status);
    const serves = data.kind === "vllm";
    if (serves) this.live.show(data, open);
    else this.live.follow(null);
    const parts = data.load ? loadParts(data.load) : data.comparison ? comparisonParts(data.comparison) : [];
    this.parts.replaceChildren(...parts);
    this.csv.hidden = serves || !parts.length;
    this.json.hidden = !parts.length && !data.server;
    const words = data.kind === "load-test" ? "The table fills with the first measured load." : "The comparison is shown when all answers are there.";
    setText(this.waiting, serves || parts.length ? "" : open ? words : "Nothing was measured.");
    this.waiting.hidden = !this.waiting.textContent;
  }
}
