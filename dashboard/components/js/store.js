// One run as the page knows it: events in, state out. No page, no network.

const LAST = new Set(["result", "failed", "cancelled"]);

export class RunState {
  constructor(runId, request) {
    this.runId = runId;
    this.request = request || null;
    this.lastSeq = 0;
    this.gaps = 0; // events that were skipped; stays 0
    this.steps = [];
    this.prefill = null;
    this.result = null;
    this.plainTokensPerS = null;
    this.status = "connecting"; // queued, loading, running, finished, failed, cancelled
    this.position = 0;
    this.holder = null; // who else has the device while this run waits for it
    this.loading = null;
    this.conditions = null;
    this.warnings = [];
    this.error = null;
    this.sums = { drafted: 0, accepted: 0, tokens: 0, draft: 0, verify: 0, commit: 0, whole: 0 };
    this.maxDepth = 1; // deepest that was tried, for the scale
    this.highest = 0; // most that was accepted in a step
  }

  get over() {
    return this.status === "finished" || this.status === "failed" || this.status === "cancelled";
  }

  /** Takes an event once; says whether anything changed. */
  apply(event) {
    if (event.seq && event.seq <= this.lastSeq) return false;
    if (event.seq) {
      if (event.seq !== this.lastSeq + 1) this.gaps += 1;
      this.lastSeq = event.seq;
    }
    const take = this[`_${event.kind}`];
    if (take) take.call(this, event.data);
    return true;
  }

  _queued(data) {
    this.status = "queued";
    this.position = data.position;
    this.holder = data.holder || null;
    if (data.request && !this.request) this.request = data.request;
  }

  _loading(data) {
    this.status = "loading";
    this.loading = data;
  }

  _started(data) {
    this.status = "running";
    this.conditions = data.conditions || {};
    this.warnings = data.warnings || [];
    if (this.conditions.request && !this.request) this.request = this.conditions.request;
  }

  _prefill(data) {
    this.status = "running";
    this.prefill = data;
  }

  _step(step) {
    this.status = "running";
    this.steps.push(step);
    const sums = this.sums;
    sums.drafted += step.num_drafted;
    sums.accepted += step.num_accepted;
    sums.tokens += step.tokens.length;
    sums.draft += step.draft_ms;
    sums.verify += step.verify_ms;
    sums.commit += step.commit_ms;
    sums.whole += step.step_ms;
    this.highest = Math.max(this.highest, step.num_accepted);
    this.maxDepth = Math.max(this.maxDepth, step.num_accepted, step.num_tried);
  }

  _result(data) {
    this.result = data;
    this.plainTokensPerS = data.plain_tokens_per_s ?? null;
    this.status = data.finish_reason === "cancelled" ? "cancelled" : "finished";
  }

  _failed(data) {
    this.status = "failed";
    this.error = data.error || "The run failed.";
  }

  _cancelled() {
    this.status = "cancelled";
  }

  static isLast(event) {
    return LAST.has(event.kind);
  }

  /** Ratios from counts, so that they are right in the middle of a run too. */
  figures() {
    const { steps, sums } = this;
    const count = steps.length;
    return {
      steps: count,
      tokens: sums.tokens + (this.prefill ? 1 : 0),
      acceptanceLength: count ? 1 + sums.accepted / count : null,
      tokensPerS: sums.whole > 0 ? (1000 * sums.tokens) / sums.whole : null,
      plainTokensPerS: this.plainTokensPerS,
      drafted: sums.drafted,
      accepted: sums.accepted,
      times: {
        draft: sums.draft,
        verify: sums.verify,
        commit: sums.commit,
        loop: Math.max(0, sums.whole - sums.draft - sums.verify - sums.commit),
      },
      whole: sums.whole,
    };
  }
}

const NAMES = {
  target: "target", drafter: "drafter", tree: "tree", max_depth: "depth", temperature: "T", rule: "rule",
  epsilon: "ε", delta: "δ", top_k: "top-k", top_p: "top-p", min_p: "min-p", repetition_penalty: "repetition penalty",
  sampled: "sampled", seed: "seed", max_new_tokens: "longest", raw_prompt: "prompt", messages: "prompt",
};

/** What one request has that another has not, in a few words: "tree chain-4, T 0.7"; for the comparison line. */
export function difference(request, other) {
  if (!request || !other) return "";
  const words = [];
  for (const [key, name] of Object.entries(NAMES)) {
    if (JSON.stringify(request[key]) === JSON.stringify(other[key])) continue;
    if (name === "prompt") {
      if (!words.includes("another prompt")) words.push("another prompt");
    } else if (key === "tree") words.push(`tree ${shortTree(request.tree)}`);
    else words.push(`${name} ${request[key] === null ? "all" : request[key]}`);
  }
  return words.join(", ");
}

export function shortTree(tree) {
  if (!tree) return "of the drafter";
  return tree.length > 18 ? `${tree.slice(0, 17)}…` : tree;
}
