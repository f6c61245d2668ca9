"""What a verification pass costs by number of rows, and what of a step is not the model's.

    python -m benchmarks.pass_cost

Rows are measured in turns (1, 2, 4, ... 64, then again), so a slow minute of the machine hits all of them; the figures
are medians in units of the one-row pass. Then plain decoding and `generate` in turns, and the share of a step outside
the model's own passes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from backend.trees import DraftTree, product
from benchmarks.common import conditions, generate_ms, open_both, start_fast, table

ROWS = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", metavar="FILE.json")
    args = parser.parse_args()
    start_fast("benchmarks.pass_cost")
    target, reference = open_both(args.target, with_reference=True)
    text = torch.randint(0, target.vocab_size, (args.context,), generator=torch.Generator().manual_seed(0)).tolist()
    rows = pass_ms(target, text, args.repeats)
    plain_ms, reference_ms = against_generate(target, reference, text, args.repeats)
    shares = {f"T = {t:g}": outside_share(target, args.drafter, text, t) for t in (0.0, 1.0)}
    base = rows[1]
    print(table([["rows", "ms", "of one row"], *([str(n), f"{ms:.1f}", f"{ms / base:.2f}"] for n, ms in rows.items())]))
    print(
        f"\nplain step {plain_ms:.1f} ms, step of generate {reference_ms:.1f} ms: "
        f"plain is {reference_ms / plain_ms:.2f} times as fast"
    )
    for name, share in shares.items():
        print(f"outside the model's passes at {name}: {100 * share:.1f} % of a step")
    result: dict[str, Any] = {
        "conditions": conditions(target) | {"context": args.context},
        "rows_ms": rows,
        "plain_step_ms": plain_ms,
        "generate_step_ms": reference_ms,
        "outside_share": shares,
    }
    if args.out:
        Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


def pass_ms(target: Target, text: list[int], repeats: int) -> dict[int, float]:
    """Rows -> median milliseconds of a verification pass, all sizes in turns, each twice in a row.

    The first of the two is not counted: in decoding a pass of the same size came before, and after one of 64 rows a
    single row takes a fifth longer.
    """
    cache = target.new_cache(1, len(text) + max(ROWS))
    target.prefill(cache, 0, text)
    trees = {n: _star(n) for n in ROWS}
    times: dict[int, list[float]] = {n: [] for n in ROWS}
    for repeat in range(repeats + 1):
        for n, tree in trees.items():
            target.tree_pass(cache, tree)
            started = time.perf_counter()
            target.tree_pass(cache, tree)
            if repeat:
                times[n].append(1000 * (time.perf_counter() - started))
    return {n: statistics.median(values) for n, values in times.items()}


def _star(rows: int) -> DraftTree:
    """A root with rows - 1 children: the cost of a pass depends on the number of rows, not on their shape."""
    tokens = torch.randint(0, 1000, (1, rows), generator=torch.Generator().manual_seed(rows))
    if rows == 1:
        return DraftTree.root_only(tokens[:, 0])
    return DraftTree.from_shape(product([rows - 1]), tokens)


def against_generate(target: Target, reference: Any, text: list[int], repeats: int) -> tuple[float, float]:
    """(median plain step, median step of `generate`) over the same context, in turns."""
    ours, theirs = [], []
    steps = 24
    settings = DecodeSettings(steps + 1, ignore_eos=True)
    for _ in range(max(3, repeats // 3)):
        traces = [r for r in decode(target, PlainDrafter(), [text], settings) if isinstance(r, StepTrace)]
        ours.append(statistics.mean(trace.step_ms for trace in traces))
        reference.generation_config.eos_token_id = None
        _, elapsed = generate_ms(reference, text, steps + 1)
        theirs.append(elapsed / steps)
    return statistics.median(ours), statistics.median(theirs)


def outside_share(target: Target, spec: str, text: list[int], temperature: float) -> float:
    """Share of the step time that is neither the drafter's nor the target's pass, at detail counts."""
    drafter, _ = load_drafter(spec, target)
    settings = DecodeSettings(33, Rule("rejection"), SamplingSettings(temperature=temperature), ignore_eos=True)
    traces = [r for r in decode(target, drafter, [text], settings) if isinstance(r, StepTrace)]
    whole = sum(trace.step_ms for trace in traces)
    return 1 - sum(trace.draft_ms + trace.verify_ms for trace in traces) / whole


if __name__ == "__main__":
    main()
