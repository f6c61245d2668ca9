"""Greedy equality: our loop with every drafter and tree, plain greedy decoding, and transformers' `generate`, token for
token.

    python -m benchmarks.equality --prompts SET.jsonl ...

A mismatch is looked at where it starts: when the two best logits of transformers' own forward differ by less than 1e-3
there, both continuations are as good as each other in float32 and the prompt is counted as a tie, apart from real
mismatches.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch
from tqdm import tqdm

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.registry import load_drafter
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.trees import parse_any_tree
from benchmarks.common import (
    add_prompt_arguments,
    first_turn_ids,
    generate_ms,
    open_both,
    prompt_sets,
    start_fast,
    table,
    write_results,
)

TIE = 1e-3
CONFIGURATIONS = (
    ("none", None),
    ("ngram", None),
    ("builtin-medusa", None),
    ("builtin-medusa", "chain-3"),
    ("builtin-medusa", "3x2x1"),
    ("builtin-medusa", "medusa-63"),
    ("draft:{target}", "chain-3"),  # the target as its own draft model: everything is accepted
    ("draft:{target}", "2x2"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=20, new_tokens=64)
    parser.add_argument(
        "--pairs", nargs="+", metavar="DRAFTER[|TREE]",
        help="what is compared, in place of the usual eight, such as builtin-eagle3|eagle2",
    )  # fmt: skip
    parser.add_argument(
        "--batch", type=int, default=8, help="rows our loop decodes at once; generate takes one at a time"
    )
    args = parser.parse_args()
    start_fast("benchmarks.equality")
    target, reference = open_both(args.target, with_reference=True)
    app_settings = Settings.from_environ()

    def open_draft_model(name: str) -> Target:
        return open_target(name, app_settings)

    sets = prompt_sets(args.prompts, args.limit)
    prompts = [
        first_turn_ids(target, prompt, args.max_new_tokens + 64) for listed in sets.values() for prompt in listed
    ]
    expected = [
        generate_ms(reference, ids, args.max_new_tokens)[0] for ids in tqdm(prompts, "generate", file=sys.stderr)
    ]
    rows: list[dict[str, Any]] = []
    pairs = [(one.split("|")[0], one.partition("|")[2] or None) for one in args.pairs or ()]
    for template, tree in tqdm(pairs or CONFIGURATIONS, "drafters", file=sys.stderr):
        spec = template.format(target=args.target)
        drafter, _ = load_drafter(spec, target, parse_any_tree(tree) if tree else None, open_target=open_draft_model)
        settings = DecodeSettings(args.max_new_tokens, Rule("greedy"))
        results = {
            r.row: r for r in decode(target, drafter, prompts, settings, args.batch) if isinstance(r, DecodeResult)
        }
        count = compare(reference, prompts, [results[row] for row in range(len(prompts))], expected)
        rows.append({"drafter": spec, "tree": tree, "nodes": drafter.shape.num_nodes, **count})
        print(json.dumps(rows[-1]), file=sys.stderr)
        write_results(args, target, rows)  # after each, so that a run that is stopped keeps what it found
    shown = [["drafter", "tree", "equal", "ties < 1e-3", "mismatches", "acceptance length"]]
    for row in rows:
        length = 1 + row["accepted"] / max(1, row["steps"])
        counted = [str(row[key]) for key in ("equal", "ties", "mismatches")]
        shown.append([row["drafter"], row["tree"] or "its own", *counted, f"{length:.2f}"])
    print(
        f"{len(prompts)} prompts ({', '.join(sets)}), {args.max_new_tokens} new tokens, "
        f"{args.batch} rows at once, greedy"
    )
    print(f"\n{table(shown)}")
    if any(row["mismatches"] for row in rows):
        sys.exit(1)


def compare(
    reference: Any, prompts: list[list[int]], results: list[DecodeResult], expected: list[list[int]]
) -> dict[str, int]:
    """How the answers of one configuration compare with those of `generate`."""
    count = {"equal": 0, "ties": 0, "mismatches": 0, "steps": 0, "accepted": 0}
    for ids, result, wanted in zip(prompts, results, expected, strict=True):
        count["steps"] += result.num_steps
        count["accepted"] += result.num_accepted
        if result.tokens == wanted:
            count["equal"] += 1
        elif gap_at_difference(reference, ids, result.tokens, wanted) < TIE:
            count["ties"] += 1
        else:
            count["mismatches"] += 1
    return count


@torch.inference_mode()
def gap_at_difference(reference: Any, ids: list[int], ours: list[int], theirs: list[int]) -> float:
    """How far apart the logits of the two tokens are where the answers part, by transformers' own forward."""
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if place is None:
        return float("inf")  # one answer ends inside the other: not a matter of rounding
    logits = reference(torch.tensor([ids + theirs[:place]], device=reference.device)).logits[0, -1]
    return float((logits[ours[place]] - logits[theirs[place]]).abs())


if __name__ == "__main__":
    main()
