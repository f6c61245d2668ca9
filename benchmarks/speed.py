"""Acceptance length and speed of a drafter on prompt sets, beside plain decoding and transformers' `generate`.

    python -m benchmarks.speed --prompts SET.jsonl ... --drafter builtin-medusa

Every prompt is answered by all of them in turns, in an order that rotates from prompt to prompt, so a slow minute of
the machine hits each alike. Speeds leave prefill out. The identity acceptance length / (v + c + o) stands beside the
measured speedup, and so does the share of output inside repeated 8-grams, since looping text is easy to draft.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from backend.analysis.repetition import repeated_share
from backend.analysis.speed import speed_identity, totals
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from backend.trees.shapes import parse_tree
from benchmarks.common import (
    add_prompt_arguments,
    answer,
    first_turn_ids,
    generate_ms,
    open_both,
    prompt_sets,
    start_fast,
    table,
    write_results,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=20, new_tokens=128)
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument(
        "--trees", nargs="+", default=[None], metavar="TREE", help="trees to compare; default: the drafter's own"
    )
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--no-generate", action="store_true", help="leave transformers' generate out")
    args = parser.parse_args()
    start_fast("benchmarks.speed")
    target, reference = open_both(args.target, with_reference=not args.no_generate and args.temperature == 0)
    drafters: dict[str, Drafter] = {"plain": PlainDrafter()}
    for tree in args.trees:
        drafters[tree or "own tree"], _ = load_drafter(args.drafter, target, parse_tree(tree) if tree else None)
    rows = [["set", "tree", "acceptance length", "v", "c", "o", "speedup", "explained", "over generate", "repeated"]]
    report: list[dict[str, Any]] = []
    for name, prompts in prompt_sets(args.prompts, args.limit).items():
        measured = measure_set(target, reference, drafters, prompts, args.max_new_tokens, args.temperature)
        report += summarise(name, measured)
        rows += [_row(entry) for entry in report[-len(args.trees) :]]
        print(_row(report[-1]), file=sys.stderr)
        write_results(args, target, report)  # after each set, so that a run that is stopped keeps what it measured
    for tree in dict.fromkeys(entry["tree"] for entry in report):
        rows.append(_row(_mean([entry for entry in report if entry["tree"] == tree])))
    print(table(rows))


def measure_set(
    target: Target,
    reference: Any,
    drafters: dict[str, Drafter],
    prompts: list[Any],
    new_tokens: int,
    temperature: float,
) -> dict[str, Any]:
    """Name -> results; `generate` holds [(tokens after the first, ms)]."""
    results: dict[str, list[DecodeResult]] = {name: [] for name in drafters}
    generated: list[tuple[int, float]] = []
    names = [*drafters, *(["generate"] if reference is not None else [])]
    for turn, prompt in enumerate(tqdm(prompts, file=sys.stderr)):
        ids = first_turn_ids(target, prompt, new_tokens + 64)
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            if name == "generate":
                tokens, elapsed = generate_ms(reference, ids, new_tokens)
                generated.append((len(tokens) - 1, elapsed))
            else:
                results[name].append(answer(target, drafters[name], ids, new_tokens, temperature))
    return {"results": results, "generated": generated}


def summarise(name: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a tree."""
    results = measured["results"]
    plain = totals(results["plain"])
    entries = []
    for tree in results:
        if tree == "plain":
            continue
        own = totals(results[tree])
        identity = speed_identity(own, plain)
        entry = {"set": name, "tree": tree, **asdict(identity), "explained": identity.explained}
        entry["repeated"] = statistics.mean(repeated_share(r.tokens) for r in results[tree])
        entry["over_generate"] = entry["plain_over_generate"] = None
        if measured["generated"]:
            speed = 1000 * sum(n for n, _ in measured["generated"]) / sum(ms for _, ms in measured["generated"])
            entry["over_generate"] = own.tokens_per_s / speed
            entry["plain_over_generate"] = plain.tokens_per_s / speed
        entry["accepted_per_depth"] = _add([r.accepted_per_depth for r in results[tree]])
        entry["drafted_per_depth"] = _add([r.drafted_per_depth for r in results[tree]])
        entries.append(entry)
    return entries


def _mean(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The unweighted mean over sets."""
    keys = ("acceptance_length", "verify", "draft", "overhead", "speedup", "explained", "over_generate", "repeated")
    present = {key: [entry[key] for entry in entries if entry[key] is not None] for key in keys}
    means = {key: statistics.mean(values) if values else None for key, values in present.items()}
    return {"set": "**mean**", "tree": entries[0]["tree"], **means}


def _row(entry: dict[str, Any]) -> list[str]:
    keys = ("acceptance_length", "verify", "draft", "overhead", "speedup", "explained", "over_generate", "repeated")
    return [entry["set"], entry["tree"][:24], *("" if entry[key] is None else f"{entry[key]:.2f}" for key in keys)]


def _add(counts: list[list[int]]) -> list[int]:
    depth = max(map(len, counts), default=0)
    return [sum(row[d] for row in counts if d < len(row)) for d in range(depth)]


if __name__ == "__main__":
    main()
