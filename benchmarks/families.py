"""All families on one board: the same target, prompts, depth and number of drafted nodes.

    python -m benchmarks.families --prompts SET.jsonl ... --drafters builtin-medusa builtin-eagle3 FOLDER ...

Every drafter decodes with a chain of `--depth` and with a tree of `--nodes` nodes no deeper than that: where it can
grow trees (EAGLE-2's way) a grown one, else the static tree that accepts most by its own held-out hit rates. Plain
decoding and all of them answer each prompt in an order that rotates, so a slow minute hits each alike. c is the
drafting cost of a step, in plain steps; training minutes are what the drafter's folder says. Acceptance by depth is of
all steps.
"""

from __future__ import annotations

import argparse
import copy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.analysis.evaluation import MEAN, PLAIN, Part, Row, table
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import read_meta
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import folder_of, load_drafter, with_tree
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import DynamicShape, Tree, chain
from backend.trees.search import HitTable
from backend.tuning.tuned import tune_hits
from benchmarks.common import add_prompt_arguments, open_both, prompt_sets, start_fast, write_results
from benchmarks.common import table as markdown
from benchmarks.speed import measure_set

HEAD = ("drafter", "tree", "T", "length", "by depth", "c", "v", "speedup", "repeated", "minutes trained")
TOP_K = 4  #: of grown trees: with 16 nodes and four levels wider ones only cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=20, new_tokens=128)
    parser.add_argument("--drafters", nargs="+", default=["builtin-medusa"])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.3, 0.7, 1.0])
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=16)
    args = parser.parse_args()
    start_fast("benchmarks.families")
    target, _ = open_both(args.target, with_reference=False)
    drafters: dict[str, Drafter] = {PLAIN: PlainDrafter()}
    for spec in args.drafters:
        loaded, _ = load_drafter(spec, target)
        for kind, tree in trees_of(spec, loaded, args.depth, args.nodes).items():
            drafters[f"{spec}|{kind}"] = with_tree(loaded, tree)
    minutes = {spec: trained_minutes(spec) for spec in args.drafters}
    parts: list[Part] = []
    for name, prompts in prompt_sets(args.prompts, args.limit).items():
        for temperature in args.temperatures:
            asked = copy.copy(args)
            asked.temperature = temperature
            measured, _ = measure_set(target, None, drafters, prompts, asked)
            parts += [replace(part, set=name) for part in measured]
        rows = [row for row in table(parts) if row.category is None and row.contender != PLAIN]
        save(args, target, rows, minutes)  # after each set, so that a run that is stopped keeps what it measured
        print(f"{name} is done", file=sys.stderr)
    print(markdown([HEAD, *(_line(row, minutes) for row in rows if row.set == MEAN or len(args.prompts) == 1)]))


def trees_of(spec: str, drafter: Drafter, depth: int, nodes: int) -> dict[str, Tree]:
    """{chain, tree} for a drafter. Raises HeadwayError for one whose folder holds no hit rates to choose a tree by."""
    grown = DynamicShape(depth, TOP_K, nodes)
    try:
        with_tree(drafter, grown)
        return {"chain": chain(depth), "grown": grown}
    except HeadwayError:
        pass
    folder = folder_of(spec)
    rates = read_meta(folder).numbers.get("hit_rates") if folder is not None else None
    if not rates:
        raise HeadwayError(f"{spec} holds no hit rates to choose a tree of {nodes} nodes by.")
    return {"chain": chain(depth), "static": tune_hits(HitTable(rates[:depth]), None, nodes).best.shape}


def trained_minutes(spec: str) -> float | None:
    folder = folder_of(spec)
    seconds = read_meta(folder).numbers.get("train_s") if folder is not None else None
    return None if seconds is None else float(seconds) / 60


def save(args: argparse.Namespace, target: Target, rows: list[Row], minutes: dict[str, float | None]) -> None:
    write_results(args, target, [row.to_dict() | {"minutes_trained": minutes[_spec(row)]} for row in rows])


def _spec(row: Row) -> str:
    return row.contender.split("|")[0]


def _line(row: Row, minutes: dict[str, float | None]) -> list[str]:
    def told(value: float | None, digits: int = 2) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    spec, tree = row.contender.split("|")
    by_depth = " ".join(f"{share:.2f}" for share in row.marginal)
    figures: list[Any] = [row.draft, row.verify, row.speedup, row.repeated]
    return [
        Path(spec).name, tree, f"{row.temperature:g}", told(row.acceptance_length), by_depth, *map(told, figures),
        told(minutes[spec], 0),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
