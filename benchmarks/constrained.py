"""What drafting gains under a JSON schema, and what it gains more when the drafts are held to the schema too.

    python -m benchmarks.constrained --out constrained.json

Every prompt asks for an object of a schema and is answered under it: by plain decoding, and by each drafter twice, with
the schema on the target's law alone and on the drafts as well (backend/decoding/held_draft.py). All take turns, in an
order that rotates from prompt to prompt and round to round; a ratio is of one round's times, and the median over rounds
is given. At temperature 0 all of them must write the same tokens, which is counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tqdm import tqdm

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.counts import PromptCounts, prompt_counts, totals_of
from backend.analysis.evaluation import PLAIN
from backend.analysis.speed import speed_identity
from backend.analysis.token_classes import CLASSES, classifier
from backend.data.templates import encode_chat
from backend.decoding.grammar import Grammar
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from benchmarks.common import conditions, open_both, start_fast, table

WARM_UP_TOKENS = 4
COMPACT = {"whitespace_flexible": False}  # llguidance: no blanks and line breaks between the parts
TEXT, NUMBER = {"type": "string", "maxLength": 40}, {"type": "integer", "minimum": 0, "maximum": 120}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


#: name -> (schema, what is asked); the facts are made up
TASKS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "person": (
        _object(name=TEXT, age=NUMBER, city=TEXT, employed={"type": "boolean"}),
        (
            "Give the facts as JSON: Maria Lopez is 34 years old, lives in Lisbon and works as a nurse.",
            "Give the facts as JSON: Tom Becker, 71, lives in Graz and has retired.",
        ),
    ),
    "tool call": (
        _object(
            name={"enum": ["get_weather", "search_flights", "convert_currency"]},
            arguments=_object(place=TEXT, date=TEXT, unit={"enum": ["celsius", "fahrenheit"]}),
        ),
        (
            "Call a tool as JSON: what will the weather be in Oslo on Friday, in celsius?",
            "Call a tool as JSON: the weather in Austin tomorrow, in fahrenheit.",
        ),
    ),
    "list": (
        _object(items={"type": "array", "minItems": 3, "maxItems": 3, "items": _object(title=TEXT, year=NUMBER)}),
        (
            "Name three kinds of fruit as JSON, with the year in which you first ate each.",
            "List three chores as JSON, with the number of minutes each takes as the year.",
        ),
    ),
}  # fmt: skip


@dataclass
class Contender:
    """Who answers. `hold`: whether the drafts are held to the schema too; `rounds`: the answers of every round."""

    name: str
    drafter: Drafter
    hold: bool
    rounds: list[list[PromptCounts]] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafters", nargs="+", default=["builtin-medusa", "ngram"])
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flexible", action="store_true", help="allow blanks and line breaks between the parts")
    parser.add_argument("--out", metavar="FILE.json", help="also write all numbers there")
    args = parser.parse_args()
    start_fast("benchmarks.constrained")
    target, _ = open_both(args.target, with_reference=False)
    contenders = [Contender(PLAIN, PlainDrafter(), False)]
    for spec in args.drafters:
        drafter, _ = load_drafter(spec, target)
        contenders += [Contender(f"{spec}, {words}", drafter, hold) for words, hold in
                       (("target held", False), ("both held", True))]  # fmt: skip
    tasks = questions(target, args.flexible)
    for number in tqdm(range(args.rounds + 1), file=sys.stderr):
        tokens = args.max_new_tokens if number else WARM_UP_TOKENS
        answered = one_round(target, contenders, tasks, number, tokens, args.temperature)
        for contender in contenders:
            if number:  # the first round warms up
                contender.rounds.append(answered[contender.name])
    rows = [figures(one, contenders[0]) for one in contenders]
    print(as_table(rows))
    if args.out:
        data = {"conditions": conditions(target) | {k: v for k, v in vars(args).items() if k != "out"}, "rows": rows}
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")


def questions(target: Target, flexible: bool) -> list[tuple[str, list[int], Grammar]]:
    """(name, prompt ids, grammar) of every question."""
    found = []
    for name, (schema, asked) in TASKS.items():
        text = json.dumps(schema if flexible else schema | {"x-guidance": COMPACT})
        grammar = Grammar(text, target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))
        for number, one in enumerate(asked):
            ids = encode_chat(target.tokenizer, [{"role": "user", "content": one}])
            found.append((f"{name} {number}", ids, grammar))
    return found


def one_round(
    target: Target,
    contenders: Sequence[Contender],
    tasks: Sequence[tuple[str, list[int], Grammar]],
    number: int,
    new_tokens: int,
    temperature: float,
) -> dict[str, list[PromptCounts]]:
    """Every question answered by everyone, in an order that rotates."""
    found: dict[str, list[PromptCounts]] = {one.name: [] for one in contenders}
    rule = Rule("greedy" if temperature == 0 else "rejection")
    settings = DecodeSettings(new_tokens, rule, SamplingSettings(temperature))
    classify = classifier(target.tokenizer)
    for place, (name, ids, grammar) in enumerate(tasks):
        shift = (number + place) % len(contenders)
        for one in [*contenders[shift:], *contenders[:shift]]:
            held = replace(settings, grammar=grammar, hold_draft=one.hold)
            records = list(decode(target, one.drafter, [ids], held))
            (counts,) = prompt_counts(records, {0: (name, name.rpartition(" ")[0])}, classify=classify)
            (result,) = (record for record in records if isinstance(record, DecodeResult))
            found[one.name].append(replace(counts, right=_is_json(result)))
    return found


def _is_json(result: DecodeResult) -> bool:
    try:
        json.loads(result.text)
    except ValueError:
        return False
    return True


def figures(one: Contender, plain: Contender) -> dict[str, Any]:
    """One row. Counts are of one round, since every round has the same; ratios are medians over rounds."""
    answers = one.rounds[0]
    sums = totals_of(answers)
    pairs = zip(map(totals_of, one.rounds), map(totals_of, plain.rounds), strict=True)
    terms = [speed_identity(own, base) for own, base in pairs]
    speeds = [1000 * total.tokens / total.decode_ms for total in map(totals_of, one.rounds)]
    tried, accepted = ([sum(getattr(a, f"{name}_by_class")[n] for a in answers) for n in range(len(CLASSES))]
                       for name in ("tried", "accepted"))  # fmt: skip
    return {
        "contender": one.name,
        "answers": len(answers),
        "complete": sum(bool(a.right) for a in answers),
        "tokens": sums.tokens,
        "steps": sums.steps,
        "accepted": sums.accepted,
        "acceptance_length": 1 + sums.accepted / sums.steps,
        "tokens_per_s": statistics.median(speeds),
        "speedup": statistics.median(term.speedup for term in terms),
        "speedups": [round(term.speedup, 4) for term in terms],
        "verify": statistics.median(term.verify for term in terms),
        "draft": statistics.median(term.draft for term in terms),
        "overhead": statistics.median(term.overhead for term in terms),
        "equal_to_plain": sum(a.digest == b.digest for a, b in zip(answers, plain.rounds[0], strict=True)),
        "tried_by_class": dict(zip(CLASSES, tried, strict=True)),
        "accepted_by_class": dict(zip(CLASSES, accepted, strict=True)),
    }


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    head = ["", "acceptance length", "format", "content", "tokens/s", "speedup", "v", "c", "o", "equal to plain"]
    lines = [head]
    for row in rows:
        tried, accepted = row["tried_by_class"], row["accepted_by_class"]
        kinds = [f"{accepted[one] / tried[one]:.2f}" if tried[one] else "-" for one in ("format", "content")]
        numbers = [f"{row[name]:.2f}" for name in ("speedup", "verify", "draft", "overhead")]
        equal, length = f"{row['equal_to_plain']} of {row['answers']}", f"{row['acceptance_length']:.2f}"
        lines.append([row["contender"], length, *kinds, f"{row['tokens_per_s']:.1f}", *numbers, equal])
    return table(lines)


if __name__ == "__main__":
    main()
