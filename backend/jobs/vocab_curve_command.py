"""`vocab-curve`: how much of the target's own text a draft vocabulary covers, and what acceptance it allows at most.

Counts answers that a distillation wrote; needs no model and writes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.analysis.draft_vocab import EVERYTHING, CurvePoint, VocabularyCurve, sizes_up_to, token_order
from backend.data.answers import Answer, read_any
from backend.errors import HeadwayError
from backend.jobs.console import say
from backend.settings import Settings
from backend.training.split import split_held_out

FEW = 1000  #: counted tokens below which shares mean little


@dataclass(frozen=True)
class Curve:
    """The counts, ready to be printed. `points` by size, then by domain."""

    answers: int
    counted_answers: int
    vocab_size: int
    coverage: float
    points: list[list[CurvePoint]]
    sizes_needed: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--answers", required=True, metavar="FILE", help="what `distill` wrote: its JSONL or its .npz")
    parser.add_argument(
        "--held-out", type=float, default=0.05, metavar="X",
        help="part of the prompts that is counted on; the tokens are ranked by the others (default 0.05, as in train)",
    )  # fmt: skip
    parser.add_argument("--coverage", type=float, default=0.99, metavar="X", help="share to cover (default 0.99)")
    parser.add_argument("--depths", default="1,2,4,8", metavar="N,N", help="chain depths of the ceiling (1,2,4,8)")
    parser.add_argument(
        "--vocab-size", type=int, metavar="N", help="the target's vocabulary; default: the highest token seen, plus 1"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the curve. Raises HeadwayError for a file without answers and for numbers out of bounds."""
    depths = _depths(args.depths)
    if not 0 < args.coverage <= 1:
        raise HeadwayError(f"--coverage must be above 0 and at most 1, but it is {args.coverage:g}.")
    if not 0 < args.held_out < 1:
        raise HeadwayError(f"--held-out must lie between 0 and 1, but it is {args.held_out:g}.")
    curve = count(read_any(Path(args.answers)), args.held_out, args.coverage, depths, args.vocab_size)
    print(json.dumps(as_json(curve)) if args.json else "\n".join(_lines(curve, depths)))
    total = curve.points[-1][0].tokens
    if total < FEW:
        say(f"Only {total} tokens were counted, so the shares mean little; make more answers or hold out more.")
    return 0


def count(
    answers: Sequence[Answer], held_out: float, coverage: float, depths: Sequence[int], vocab_size: int | None = None
) -> Curve:
    """Rank tokens by the training part of the answers, as training does, and count on the held-out part."""
    highest = max(max(answer.prompt_ids + answer.answer_ids, default=0) for answer in answers)
    size = highest + 1 if vocab_size is None else vocab_size
    if highest >= size:
        raise HeadwayError(f"The answers hold token {highest}, so the vocabulary has more than {size} tokens.")
    training, held = split_held_out(answers, held_out)
    if not training or not any(answer.answer_ids for answer in held):
        raise HeadwayError("There are too few prompts to hold some out; make answers to more prompts.")
    ends = {answer.answer_ids[-1] for answer in answers if answer.finish_reason == "eos" and answer.answer_ids}
    curve = VocabularyCurve(token_order(training, size, ends), held)
    return Curve(
        answers=len(answers),
        counted_answers=len(held),
        vocab_size=size,
        coverage=coverage,
        points=[[curve.point(n, domain, depths) for domain in curve.domains] for n in sizes_up_to(size)],
        sizes_needed={domain: curve.size_for(coverage, domain) for domain in curve.domains},
    )


def as_json(curve: Curve) -> dict[str, Any]:
    """Counts and what follows from them."""
    return {
        "answers": curve.answers,
        "counted_answers": curve.counted_answers,
        "vocab_size": curve.vocab_size,
        "curve": [
            {
                "size": point.size,
                "domain": point.domain,
                "tokens": point.tokens,
                "covered": point.covered,
                "ceilings": [
                    {
                        "depth": one.depth,
                        "num_steps": one.num_steps,
                        "num_accepted": one.num_accepted,
                        "acceptance_length": round(one.acceptance_length, 4),
                    }
                    for one in point.ceilings
                ],
            }
            for points in curve.points
            for point in points
        ],
        "coverage": curve.coverage,
        "sizes_needed": curve.sizes_needed,
    }


def _lines(curve: Curve, depths: Sequence[int]) -> list[str]:
    domains = [point.domain for point in curve.points[0]]
    names = [EVERYTHING] if domains[1:] in ([], ["none"]) else domains
    widths = [max(8, len(name)) for name in names]
    head = f"{'Vd':>7}  " + "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True))
    lines = [
        f"Ranked by the other answers, counted on {curve.counted_answers} of {curve.answers} "
        f"({curve.points[0][0].tokens:,} tokens).",
        "Share of the target's own tokens that can be drafted, and the longest acceptance length that this allows to a "
        "chain of a depth:",
        head + "  | " + "  ".join(f"depth {depth}".rjust(8) for depth in depths),
    ]
    for points in curve.points:
        shares = [f"{100 * point.coverage:.2f} %" for point in points[: len(names)]]
        cells = "  ".join(share.rjust(width) for share, width in zip(shares, widths, strict=True))
        ceilings = "  ".join(f"{one.acceptance_length:8.3f}" for one in points[0].ceilings)
        lines.append(f"{points[0].size:>7,}  {cells}  | {ceilings}")
    needed = ", ".join(f"{curve.sizes_needed[name]:,} for {name}" for name in names)
    return [*lines, f"{100 * curve.coverage:g} % of the tokens need Vd = {needed}."]


def _depths(text: str) -> list[int]:
    try:
        depths = [int(part) for part in text.split(",")]
    except ValueError:
        depths = []
    if not depths or not all(1 <= depth <= 64 for depth in depths):
        raise HeadwayError(f"--depths takes whole numbers from 1 to 64 with commas, like 1,2,4, not {text!r}.")
    return depths
