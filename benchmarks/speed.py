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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.counts import prompt_counts
from backend.analysis.evaluation import MEAN, PLAIN, Part, Row, table
from backend.data.prompts import Prompt
from backend.decoding.loop import DecodeSettings, decode
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from backend.trees import parse_any_tree
from benchmarks.common import (
    add_prompt_arguments,
    first_turn_ids,
    generate_ms,
    open_both,
    prompt_sets,
    start_fast,
    write_results,
)
from benchmarks.common import table as markdown

HEAD = ("set", "tree", "acceptance length", "v", "c", "o", "speedup", "explained", "over generate", "repeated")
COLUMNS = ("acceptance_length", "verify", "draft", "overhead", "speedup", "explained", "over_generate", "repeated")


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
    drafters: dict[str, Drafter] = {PLAIN: PlainDrafter()}
    for tree in args.trees:
        drafters[tree or "own tree"], _ = load_drafter(args.drafter, target, parse_any_tree(tree) if tree else None)
    parts: list[Part] = []
    generate: dict[str, float] = {}  # tokens/s of transformers' generate, by set
    for name, prompts in prompt_sets(args.prompts, args.limit).items():
        own, generated = measure_set(target, reference, drafters, prompts, args)
        parts += [replace(part, set=name) for part in own]
        if generated:
            generate[name] = 1000 * sum(n for n, _ in generated) / sum(ms for _, ms in generated)
        entries = summarise(table(parts), generate)
        print(next(_line(entry) for entry in entries if entry["set"] == name), file=sys.stderr)
        write_results(args, target, entries)  # after each set, so that a run that is stopped keeps what it measured
    print(markdown([HEAD, *map(_line, summarise(table(parts), generate))]))


def measure_set(
    target: Target, reference: Any, drafters: dict[str, Drafter], prompts: Sequence[Prompt], args: argparse.Namespace
) -> tuple[list[Part], list[tuple[int, float]]]:
    """Every prompt by everyone, in an order that rotates: our parts, and `generate`'s (tokens after the first, ms)."""
    parts: list[Part] = []
    generated: list[tuple[int, float]] = []
    names = [*drafters, *(["generate"] if reference is not None else [])]
    for turn, prompt in enumerate(tqdm(prompts, file=sys.stderr)):
        ids = first_turn_ids(target, prompt, args.max_new_tokens + 64)
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            if name == "generate":
                tokens, elapsed = generate_ms(reference, ids, args.max_new_tokens)
                generated.append((len(tokens) - 1, elapsed))
                continue
            settings = DecodeSettings(args.max_new_tokens, Rule("rejection"), SamplingSettings(args.temperature))
            records = decode(target, drafters[name], [ids], settings)
            counts = prompt_counts(records, {0: (prompt.question_id, prompt.category)})
            parts.append(Part(name, "", args.temperature, 1, tuple(counts)))
    return parts, generated


def summarise(rows: Sequence[Row], generate: Mapping[str, float]) -> list[dict[str, Any]]:
    """One entry a set and tree, then the means over sets."""
    whole = [row for row in rows if row.category is None]
    plain = {row.set: row.tokens_per_s for row in whole if row.contender == PLAIN}
    entries: list[dict[str, Any]] = []
    for row in whole:
        if row.contender == PLAIN:
            continue
        entry = row.to_dict() | {"tree": row.contender}
        for key, speed in (("over_generate", row.tokens_per_s), ("plain_over_generate", plain[row.set])):
            entry[key] = speed / generate[row.set] if row.set in generate and speed is not None else None
            if row.set == MEAN:
                known = [one[key] for one in entries if one["tree"] == row.contender and one[key] is not None]
                entry[key] = statistics.mean(known) if known else None
        entries.append(entry)
    return entries


def _line(entry: Mapping[str, Any]) -> list[str]:
    return [entry["set"], entry["tree"][:24], *("" if entry[key] is None else f"{entry[key]:.2f}" for key in COLUMNS)]


if __name__ == "__main__":
    main()
