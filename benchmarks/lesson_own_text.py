"""Second lesson of the field, on a real target: heads that learned from text the target did not write lose to heads
that learned from its own.

    python -m benchmarks.lesson_own_text --texts QUESTIONS.jsonl --out lesson.json --figure lesson.svg

Texts that people wrote are cut in two. The target is asked to go on after the first part: its continuations are one set
of answers, what the people wrote the other. Both have the same prompts and, text by text, the same number of tokens, so
that nothing but the author differs. Heads of one kind learn from either, in the same number of steps, and draft for the
same target on texts that none of them has seen; by prompt their difference is paired. Goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import app
from backend.analysis.evaluation import Part, Row, table
from backend.analysis.paired import difference, ratio
from backend.data.answers import Answer, pack_answers, unpack_answers
from backend.data.prompts import Prompt, read_prompts
from backend.drafters.registry import load_drafter, with_tree
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import chain
from benchmarks.common import open_both, start_fast, write_results
from benchmarks.common import table as markdown
from benchmarks.line_figure import line_figure
from benchmarks.speed import measure_set

ASKED = "Go on with this text. Write only what follows.\n\n"
LEAST_WORDS = 24  #: shorter texts leave nothing to go on with
FIRST_PART = 0.35
OWN, PEOPLES = "the target's own text", "people's text"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--texts", nargs="+", required=True, metavar="FILE", help="prompt files; first turns are read")
    parser.add_argument("--limit", type=int, default=600, help="texts that are learned from")
    parser.add_argument("--held-out", type=int, default=40, help="texts that are measured on")
    parser.add_argument("--family", default="medusa")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 1.0])
    parser.add_argument("--work", default="lesson-own-text", metavar="FOLDER", help="answers and heads are kept there")
    parser.add_argument("--out", metavar="FILE.json")
    parser.add_argument("--figure", metavar="FILE.svg")
    args = parser.parse_args()
    start_fast("benchmarks.lesson_own_text")
    work = Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    learned, measured = texts_of(args.texts, args.limit, args.held_out)
    args.prompts = args.texts
    target, _ = open_both(args.target, with_reference=False)
    answers = answered(args, target, work, learned)
    drafters = {name: trained(args, target, work, name, path) for name, path in answers.items()}
    parts: list[Part] = []
    for temperature in args.temperatures:
        asked = argparse.Namespace(max_new_tokens=args.max_new_tokens, temperature=temperature)
        prompts = [Prompt(f"text-{n}", "texts", (cut(text)[0],)) for n, text in enumerate(measured)]
        found, _ = measure_set(target, None, drafters, prompts, asked)
        parts += [replace(part, set="texts") for part in found]
    rows = table(parts)
    tokens = sum(len(answer.answer_ids) for answer in unpack_answers(answers[OWN]))
    write_results(args, target, [{"tokens_learned": tokens, **row.to_dict()} for row in rows])
    head = ("heads learned from", "T", "length", "interval", *(f"depth {d + 1}" for d in range(args.depth)))
    print(f"{tokens:,} tokens each\n\n{markdown([head, *map(_line, rows)])}\n")
    for temperature in args.temperatures:
        print(f"T = {temperature:g}: {_gained(parts, temperature)}")
    if args.figure:
        draw(Path(args.figure), rows, args.depth)


def texts_of(paths: Sequence[str], limit: int, held_out: int) -> tuple[list[str], list[str]]:
    """(to learn from, to measure on): first turns with enough words, mixed by a fixed seed. Raises HeadwayError."""
    found = [prompt.turns[0] for path in paths for prompt in read_prompts(path).prompts]
    found = list(dict.fromkeys(text for text in found if len(text.split()) >= LEAST_WORDS))
    if len(found) < 2 * held_out:
        raise HeadwayError(f"Only {len(found)} texts have {LEAST_WORDS} words or more; give files with longer turns.")
    random.Random(0).shuffle(found)
    return found[held_out:][:limit], found[:held_out]


def cut(text: str) -> tuple[str, str]:
    """(what is asked, what the person wrote next): cut between two words."""
    words = text.split(" ")
    place = max(8, int(FIRST_PART * len(words)))
    return ASKED + " ".join(words[:place]), " ".join(words[place:])


def answered(args: argparse.Namespace, target: Target, work: Path, texts: Sequence[str]) -> dict[str, Path]:
    """{OWN: packed answers, PEOPLES: packed answers}: the same prompts, and as many tokens of both in each."""
    paths = {OWN: work / "own.npz", PEOPLES: work / "people.npz"}
    prompts, made = work / "prompts.jsonl", work / "made.npz"
    rows = [{"question_id": f"text-{n}", "category": "texts", "turns": [cut(text)[0]]} for n, text in enumerate(texts)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ["distill", "--target", args.target, "--prompts", str(prompts), "--temperatures", "0", "--no-store"]
    longest = ["--max-new-tokens", str(args.max_new_tokens)]
    _run([*command, *longest, "--out", str(work / "made.jsonl"), "--pack", str(made)])
    own, people = [], []
    for answer in unpack_answers(made):
        text = cut(texts[int(answer.question_id.removeprefix("text-"))])[1]
        written = target.tokenizer(text, add_special_tokens=False)["input_ids"]
        length = min(len(written), len(answer.answer_ids))
        if length >= args.depth + 2:
            own.append(_shortened(answer, answer.answer_ids[:length]))
            people.append(_shortened(answer, written[:length]))
    pack_answers(own, paths[OWN])
    pack_answers(people, paths[PEOPLES])
    return paths


def _shortened(answer: Answer, ids: Sequence[int]) -> Answer:
    return replace(answer, answer_ids=tuple(int(one) for one in ids), finish_reason="length", truncated=True)


def trained(args: argparse.Namespace, target: Target, work: Path, name: str, answers: Path) -> Any:
    """The drafter that learned from these answers, with a chain."""
    out = work / answers.stem
    command = ["train", "--target", args.target, "--answers", str(answers), "--out", str(out), "--no-store"]
    kind = ["--family", args.family, "--preset", "small", "--tree", f"chain-{args.depth}", "--keep", "last"]
    _run([*command, *kind, "--epochs", str(args.epochs), "--work", str(work / f"{answers.stem}-work"), "--name", name])
    return with_tree(load_drafter(str(out), target)[0], chain(args.depth))


def _run(words: list[str]) -> None:
    code = app.main(words)
    if code:
        sys.exit(code)


def _gained(parts: Sequence[Part], temperature: float) -> str:
    """How much longer a step gets by learning from the target's own text, paired by prompt."""
    by_author = {part.contender: part.answers for part in parts if part.temperature == temperature}
    lengths = [
        ratio([a.num_accepted + a.num_steps for a in by_author[name]], [a.num_steps for a in by_author[name]], "lesson")
        for name in (PEOPLES, OWN)
    ]
    found = difference(*lengths)
    between = "" if found.interval is None else f" ({found.interval.low:+.2f} to {found.interval.high:+.2f})"
    return f"{OWN} gives {found.value or 0:+.2f}{between} tokens a step over {PEOPLES}"


def draw(path: Path, rows: Sequence[Row], depth: int) -> None:
    """Acceptance by depth, of all steps."""
    temperatures = sorted({row.temperature for row in rows})
    names = {f"{row.contender}, T = {row.temperature:g}": row for row in rows}
    lines = {name: [(float(d + 1), share) for d, share in enumerate(row.marginal)] for name, row in names.items()}
    dashed = {name: temperatures.index(row.temperature) for name, row in names.items()}
    depths = [float(one) for one in range(1, depth + 1)]
    ticks = tuple(tenth / 10 for tenth in range(9))
    title = "Accepted at each depth, of all steps"
    line_figure(path, title, lines, ("depth of the chain", depths), ("share", ticks), dashed)


def _line(row: Row) -> list[str]:
    between = row.acceptance_interval
    interval = "" if between is None else f"{between.low:.2f} to {between.high:.2f}"
    length = "" if row.acceptance_length is None else f"{row.acceptance_length:.2f}"
    return [row.contender, f"{row.temperature:g}", length, interval, *(f"{share:.2f}" for share in row.marginal)]


if __name__ == "__main__":
    main()
