"""What becomes of draft heads when the target is fine-tuned, what new ones win back, and when the watch speaks.

    python -m benchmarks.stale_heads --out stale.json

The built-in target learns the made-up tool calls of scripts/make_tool_calls.py. The built-in heads draft for the
original and, forced, for the new version; then heads that start from them learn from the new version's answers. All
are measured on the same prompts that nobody learned from, calls and others apart, paired by prompt. What was measured
is handed to the watch as requests in the order in which they would have been served: the original's, then the new
version's with the old heads. Files are kept in `--work`, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import app
from backend.analysis.bootstrap import Interval
from backend.analysis.counts import PromptCounts
from backend.analysis.paired import Figure, difference, ratio
from backend.analysis.watch import WatchRules
from backend.analysis.watch_series import Request, WatchedSeries
from backend.data.prompts import Prompt, read_prompts
from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of, load_drafter
from backend.jobs.provenance import ROOT
from backend.jobs.watch_job import sentence
from backend.targets.target import Target
from benchmarks.common import open_both, start_fast, table, write_results
from benchmarks.speed import measure_set

CALLS, OTHERS = "calls", "others"
BEFORE, OLD, NEW = "original, its heads", "new version, old heads", "new version, new heads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument("--others", default="prompts/heldout.jsonl", metavar="FILE", help="prompts that are no calls")
    parser.add_argument("--learned", default="prompts/train.jsonl", metavar="FILE", help="others that heads learn from")
    parser.add_argument("--limit", type=int, default=60, help="prompts of each kind that are measured on")
    parser.add_argument("--learn-limit", type=int, default=300, help="others that the new heads learn from")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--work", default="stale-heads", metavar="FOLDER")
    parser.add_argument("--out", metavar="FILE.json")
    args = parser.parse_args()
    start_fast("benchmarks.stale_heads")
    work = Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    args.prompts = [args.others]
    version, heads = work / "version", work / "heads"
    make_version(args, work, version)
    prompts = measured_on(args, work)
    original, _ = open_both(args.target, with_reference=False)
    counts = {BEFORE: decoded(original, args.drafter, prompts, args)}
    del original
    changed, _ = open_both(str(version), with_reference=False)
    counts[OLD] = decoded(changed, args.drafter, prompts, args)
    learn_again(args, work, version, heads)
    counts[NEW] = decoded(changed, str(heads), prompts, args)
    rows = [row for kind in (CALLS, OTHERS) for row in figures(counts, kind)]
    watch = watched(counts)
    write_results(args, changed, [*rows, watch])
    print(table([("prompts", "who", "length", "interval", "against old heads"), *map(_line, rows)]))
    told = [f"After {one['request']} requests of the new version: {one['sentence']}" for one in watch["alarms"]]
    print("\n" + "\n".join(told or ["The watch raised no alarm."]))


def make_version(args: argparse.Namespace, work: Path, version: Path) -> None:
    if version.is_dir():
        return
    script = [sys.executable, str(ROOT / "scripts/make_tool_calls.py"), str(work / "calls.jsonl")]
    subprocess.run([*script, "--held-out", str(work / "calls-heldout.jsonl")], check=True)
    answers = str(work / "calls.jsonl")
    _run(["finetune", "--target", args.target, "--answers", answers, "--out", str(version), "--no-store"])


def measured_on(args: argparse.Namespace, work: Path) -> list[Prompt]:
    """Both kinds, taking turns; a prompt's category says which it is."""
    calls = read_prompts(work / "calls-heldout.jsonl", args.limit).prompts
    others = read_prompts(args.others, args.limit).prompts
    found = []
    for one in zip(calls, others, strict=False):
        for kind, prompt in zip((CALLS, OTHERS), one, strict=True):
            found.append(Prompt(f"{kind}-{prompt.question_id}", kind, prompt.turns[:1], tools=prompt.tools))
    return found


def learn_again(args: argparse.Namespace, work: Path, version: Path, heads: Path) -> None:
    """Heads that start from the old ones and learn from the new version's own answers to calls and others."""
    if heads.is_dir():
        return
    asked = work / "learned.jsonl"
    rows = [line for line in (work / "calls.jsonl").read_text(encoding="utf-8").splitlines() if line.strip()]
    others = Path(args.learned).read_text(encoding="utf-8").splitlines()[: args.learn_limit]
    asked.write_text("\n".join([*(_question(row, number) for number, row in enumerate(rows)), *others]) + "\n", "utf-8")
    answers = str(work / "answers.npz")
    words = ["--prompts", str(asked), "--temperatures", "0", "--turns", "1", "--max-new-tokens", "128", "--no-store"]
    _run(["distill", "--target", str(version), *words, "--out", str(work / "answers.jsonl"), "--pack", answers])
    folder = folder_of(args.drafter)
    start = [] if folder is None else ["--start-from", str(folder)]
    train = ["train", "--target", str(version), "--answers", answers, "--out", str(heads), "--no-store", *start]
    family = "medusa" if folder is None else read_meta(folder).family
    _run([*train, "--family", family, "--shared-output", "--epochs", "4", "--tree-nodes", "4", "--half"])


def _question(row: str, number: int) -> str:
    """A row of answers as a prompt alone: the version answers it itself."""
    given = json.loads(row)
    kept = {key: value for key, value in given.items() if key in ("tools",)}
    turns = [one["content"] for one in given["messages"] if one["role"] == "user"]
    return json.dumps({"question_id": f"call-{number}", "category": CALLS, "turns": turns[:1], **kept})


def decoded(target: Target, drafter: str, prompts: Sequence[Prompt], args: argparse.Namespace) -> list[PromptCounts]:
    """Greedy answers, in the order of the prompts."""
    loaded, _ = load_drafter(drafter, target, force=True)
    asked = argparse.Namespace(max_new_tokens=args.max_new_tokens, temperature=0.0)
    parts, _ = measure_set(target, None, {"it": loaded}, prompts, asked)
    return [answer for part in parts for answer in part.answers]


def figures(counts: dict[str, list[PromptCounts]], kind: str) -> list[dict[str, Any]]:
    """A row for everybody, with what it has over the old heads on the new version."""
    lengths = {name: _length([one for one in own if one.category == kind]) for name, own in counts.items()}
    rows = []
    for name, length in lengths.items():
        apart = difference(lengths[OLD], length)
        rows.append({
            "prompts": kind, "num_prompts": len(length.each), "who": name, "acceptance_length": length.value,
            "interval": _pair(length.interval), "over_old": None if name == OLD else apart.value,
            "over_old_interval": None if name == OLD else _pair(apart.interval),
        })  # fmt: skip
    return rows


def _length(answers: Sequence[PromptCounts]) -> Figure:
    return ratio([one.num_accepted + one.num_steps for one in answers], [one.num_steps for one in answers], "stale")


def _pair(between: Interval | None) -> list[float] | None:
    return None if between is None else [between.low, between.high]


def watched(counts: dict[str, list[PromptCounts]]) -> dict[str, Any]:
    """{served, of_the_original, alarms}: all requests of the original, then those of the new version with old heads.

    Each alarm says after how many requests of the new version it came.
    """
    baseline = len(counts[BEFORE])
    served = [("original", one) for one in counts[BEFORE]] + [("tool calls", one) for one in counts[OLD]]
    series = WatchedSeries(WatchRules(), min(100, baseline))
    alarms = []
    for number, (version, answer) in enumerate(served):
        if answer.num_steps:
            length = (answer.num_accepted + answer.num_steps) / answer.num_steps
            raised = series.add(Request(version, "old heads", answer.category, length))
            at = number + 1 - baseline
            alarms += [{"request": at, "sentence": sentence(one), **one.to_dict()} for one in raised]
    return {"served": len(served), "of_the_original": baseline, "alarms": alarms}


def _run(words: list[str]) -> None:
    code = app.main(words)
    if code:
        sys.exit(code)


def _line(row: dict[str, Any]) -> list[str]:
    def told(value: list[float] | None, sign: str = "") -> str:
        return "" if value is None else f"{value[0]:{sign}.2f} to {value[1]:{sign}.2f}"

    over = "" if row["over_old"] is None else f"{row['over_old']:+.2f} ({told(row['over_old_interval'], '+')})"
    return [row["prompts"], row["who"], f"{row['acceptance_length']:.2f}", told(row["interval"]), over]


if __name__ == "__main__":
    main()
