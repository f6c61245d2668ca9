"""`data-curve`: how much more training data another step of acceptance takes, from a few drafters trained on little.

Reads an evaluation of drafters that differ in their data, or points that are typed. Trains and measures nothing itself.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from backend.analysis.evaluation import MEAN, PLAIN
from backend.analysis.scaling import Fit, Run, Span, fit
from backend.data.answers import read_any
from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of
from backend.errors import HeadwayError
from backend.settings import Settings

TWO_SIDED: Final = 1.96  #: standard errors on each side of a 95 % interval
MISFIT: Final = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--evaluation", action="append", default=[], metavar="FILE",
        help="table.json of a finished evaluation of drafters that learned from different amounts; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--point", action="append", default=[], metavar="TOKENS:LENGTH:ERROR",
        help="one training typed by hand: tokens, acceptance length and its standard error; may be repeated",
    )  # fmt: skip
    parser.add_argument("--gain", type=float, default=0.2, metavar="X", help="acceptance length to add (default 0.2)")
    parser.add_argument("--answers", metavar="FILE", help="also say it in answers as long as those of this file")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="same seed, same draws of curves (default 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the curve's answers. Raises HeadwayError for what is no run, and for runs that no curve leads through."""
    if not (math.isfinite(args.gain) and args.gain > 0):
        raise HeadwayError(f"--gain must be above 0, but it is {args.gain:g}.")
    runs = [point(text) for text in args.point]
    for name in args.evaluation:
        runs += runs_of(name, _table(name))
    try:
        found = fit(sorted(runs, key=lambda one: one.tokens), args.seed)
    except ValueError as error:
        raise HeadwayError(
            f"No curve can be drawn: {error}; train on other amounts of data and evaluate again."
        ) from None
    length = _mean_length(args.answers) if args.answers else None
    told = as_json(found, args.gain, length)
    print(json.dumps(told) if args.json else "\n".join(lines(told)))
    return 0


def point(text: str) -> Run:
    """ "20000:1.42:0.02". Raises HeadwayError."""
    try:
        tokens, length, error = (float(part) for part in text.split(":"))
    except ValueError:
        raise HeadwayError(f"A point is TOKENS:LENGTH:ERROR, such as 20000:1.42:0.02; {text[:40]!r} is none.") from None
    return Run(tokens, length, error)


def runs_of(name: str, table: Mapping[str, Any]) -> list[Run]:
    """A run for each drafter of an evaluation that has a folder: over all sets, at the lowest temperature and smallest
    batch. Raises HeadwayError for a table without such drafters.
    """
    found = []
    for key, drafter in table["setup"]["contenders"].items():
        folder = folder_of(str(drafter["spec"])) if key != PLAIN else None
        rows = [
            row
            for row in table["rows"]
            if row["contender"] == key and row["category"] is None and row.get("acceptance_interval")
        ]
        if folder is None or not rows:
            continue
        row = min(rows, key=lambda one: (one["temperature"], one["batch"], one["set"] != MEAN))
        interval = row["acceptance_interval"]
        error = (interval["high"] - interval["low"]) / 2 / TWO_SIDED
        tokens = read_meta(folder).numbers.get("training_positions")
        if tokens and error > 0:
            found.append(Run(float(tokens), float(row["acceptance_length"]), error))
    if not found:
        raise HeadwayError(f"{name} measured no trained drafter on enough prompts for an interval.")
    return found


def as_json(found: Fit, gain: float, answer_tokens: float | None) -> dict[str, Any]:
    """Spans as {median, low, high}; None stands for never."""
    most = max(run.tokens for run in found.runs)
    needed, never = found.more_for(gain)
    told: dict[str, Any] = {
        "runs": [vars(run) for run in found.runs],
        "gain": gain,
        "more_tokens": _span(needed),
        "never": never,
        "with_twice_the_data": _span(found.at(2 * most)),
        "ceiling": _span(found.ceiling),
        "misfit": found.misfit,
        "more_answers": None,
    }
    if answer_tokens is not None:
        told["more_answers"] = {
            name: None if value is None else math.ceil(value / answer_tokens)
            for name, value in told["more_tokens"].items()
        }
    return told


def lines(told: Mapping[str, Any]) -> list[str]:
    """For a person."""
    shown = [
        f"{run['tokens']:,.0f} tokens: {run['acceptance_length']:.2f} tokens a step (standard error {run['error']:.3f})"
        for run in told["runs"]
    ]
    twice = told["with_twice_the_data"]
    shown.append(
        f"With twice the data of the largest: {twice['median']:.2f} ({twice['low']:.2f} to {twice['high']:.2f})."
    )
    shown.append(f"For +{told['gain']:g}: {_words(told['more_tokens'], 'more tokens')}.")
    if told["more_answers"]:
        shown.append(f"That is {_words(told['more_answers'], 'more answers')}.")
    if told["never"] >= 0.005:
        shown.append(f"{100 * told['never']:.0f} % of the curves that explain the runs never get there.")
    if told["misfit"] is not None and told["misfit"] > MISFIT:
        shown.append("The runs differ in more than their data: no curve explains them within their errors.")
    return shown


def _words(span: Mapping[str, float | None], what: str) -> str:
    """ "104,000 more tokens (62,900 to never)": three digits are more than such a curve knows."""
    low, median, high = (
        "never" if span[name] is None else f"{float(f'{span[name]:.3g}'):,.0f}" for name in ("low", "median", "high")
    )
    return f"{median} {what} ({low} to {high})"


def _span(span: Span) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in vars(span).items()}


def _table(name: str) -> dict[str, Any]:
    path = Path(name).expanduser()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        data["setup"]["contenders"], data["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        raise HeadwayError(f"{name} is no table of an evaluation; take the table.json in its job's folder.") from None
    found: dict[str, Any] = data
    return found


def _mean_length(name: str) -> float:
    answers: Sequence[Any] = read_any(Path(name).expanduser())
    return sum(len(answer.answer_ids) for answer in answers) / len(answers)
