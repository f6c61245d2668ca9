"""How much longer steps get with more training data: one family trained on growing parts of the same answers.

    python -m benchmarks.data_scaling --answers ANSWERS.npz --family eagle3 --tokens 20000 60000 180000 \
        --prompts SET.jsonl ... --out scaling.json --figure scaling.svg

The parts are nested and chosen by each prompt's hash, so all hold the same mixture of domains and temperatures; the
held-out prompts of training are in none of them. Every drafter sees its part equally often and drafts the same chain.
A curve with a ceiling is fitted (backend/analysis/scaling.py). Drafters that are there already are measured as they
are, so a run that was stopped goes on; `--and-drafter` adds one that was trained elsewhere on answers of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import app
from backend.analysis.evaluation import MEAN, Part, Row, table
from backend.analysis.scaling import Run, fit
from backend.data.answers import Answer, pack_answers, read_any
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import META, read_meta
from backend.drafters.registry import folder_of, load_drafter, with_tree
from backend.errors import HeadwayError
from backend.jobs.data_curve_command import TWO_SIDED, as_json, lines
from backend.training.split import split_held_out
from backend.trees import chain
from benchmarks.common import add_prompt_arguments, open_both, prompt_sets, start_fast, write_results
from benchmarks.line_figure import line_figure
from benchmarks.speed import measure_set

HELD_OUT = 0.05  #: as training's own default


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=20, new_tokens=96)
    parser.add_argument("--answers", required=True, metavar="FILE")
    parser.add_argument("--family", default="eagle3")
    parser.add_argument("--tokens", nargs="+", type=int, default=[20_000, 60_000, 180_000], metavar="N")
    parser.add_argument("--and-drafter", nargs="*", default=[], metavar="DRAFTER")
    parser.add_argument("--train", nargs=argparse.REMAINDER, default=[], help="what follows goes to `train`")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--gain", type=float, default=0.2)
    parser.add_argument("--work", default="data-scaling", metavar="FOLDER", help="parts and drafters are kept there")
    parser.add_argument("--figure", metavar="FILE.svg")
    args = parser.parse_args()
    start_fast("benchmarks.data_scaling")
    target, _ = open_both(args.target, with_reference=False)
    folders = [trained(args, part, count) for count, part in parts_of(read_any(Path(args.answers)), args.tokens)]
    specs = [*map(str, folders), *args.and_drafter]
    drafters: dict[str, Drafter] = {
        spec: with_tree(load_drafter(spec, target)[0], chain(args.depth)) for spec in specs
    }
    asked = argparse.Namespace(max_new_tokens=args.max_new_tokens, temperature=0.0)
    parts: list[Part] = []
    for name, prompts in prompt_sets(args.prompts, args.limit).items():
        measured, _ = measure_set(target, None, drafters, prompts, asked)
        parts += [Part(part.contender, name, 0.0, 1, part.answers) for part in measured]
    shown = [row for row in table(parts) if row.category is None and (row.set == MEAN or len(args.prompts) == 1)]
    runs = sorted((run_of(row) for row in shown), key=lambda run: run.tokens)
    try:
        found = as_json(fit(runs, 0), args.gain, None)
    except ValueError as error:
        raise HeadwayError(f"No curve can be drawn: {error}.") from None
    write_results(args, target, [found])
    print("\n".join(lines(found)))
    if args.figure:
        draw(Path(args.figure), args.family, runs)


def parts_of(answers: Sequence[Answer], counts: Sequence[int]) -> list[tuple[int, list[Answer]]]:
    """[(tokens wanted, answers)]: those of the prompts with the lowest hashes, until there are so many tokens; held-out
    ones stay in, since training leaves them out itself. Raises HeadwayError where there are not so many.
    """
    trained_on, held_out = split_held_out(answers, HELD_OUT)
    ordered = sorted(trained_on, key=lambda answer: answer.place())
    found = []
    for count in sorted(counts):
        part, tokens = [], 0
        for answer in ordered:
            if tokens >= count:
                break
            part.append(answer)
            tokens += len(answer.answer_ids)
        if tokens < count:
            raise HeadwayError(f"The answers have {tokens:,} tokens to learn from, fewer than {count:,}.")
        found.append((count, [*part, *held_out]))
    return found


def trained(args: argparse.Namespace, part: Sequence[Answer], count: int) -> Path:
    """The drafter of this part, trained unless it is there."""
    work = Path(args.work) / f"{args.family}-{count}"
    out = work / "drafter"
    if (out / META).is_file():
        return out
    work.mkdir(parents=True, exist_ok=True)
    pack_answers(part, work / "answers.npz")
    command = ["train", "--target", args.target, "--family", args.family, "--preset", "small", "--no-store"]
    files = ["--answers", str(work / "answers.npz"), "--out", str(out), "--held-out", str(HELD_OUT)]
    code = app.main([*command, *files, "--tree", f"chain-{args.depth}", *args.train])
    if code:
        sys.exit(code)
    return out


def run_of(row: Row) -> Run:
    """A measured drafter as a point of the curve. Raises HeadwayError without an interval or a count of tokens."""
    folder = folder_of(row.contender)
    tokens = read_meta(folder).numbers.get("training_positions") if folder is not None else None
    between = row.acceptance_interval
    if not tokens or between is None or row.acceptance_length is None:
        raise HeadwayError(f"{row.contender} has no count of training tokens, or too few prompts were measured.")
    return Run(float(tokens), row.acceptance_length, (between.high - between.low) / 2 / TWO_SIDED)


def draw(path: Path, family: str, runs: Sequence[Run]) -> None:
    points = [(run.tokens / 1000, run.acceptance_length) for run in runs]
    most = max(x for x, _ in points)
    ticks = [round(most * part / 5, -1) for part in range(5)] + [round(most * 1.02, -1)]
    highest = max(y for _, y in points)
    heights = [1 + quarter / 4 for quarter in range(int(4 * highest) - 2)]
    title = f"Acceptance length of {family} by training tokens"
    line_figure(path, title, {family: points}, ("thousand training tokens", ticks), ("tokens a step", heights))


if __name__ == "__main__":
    main()
