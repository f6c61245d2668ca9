"""Write the project's own prompt set: prompts/train.jsonl, prompts/heldout.jsonl and prompts/demo.jsonl.

Rows are `{"question_id", "category", "turns"}`. Everything is made of the material in `prompt_content`; the same seed
writes the same bytes. The held-out file is made from contents (questions, functions, story frames, passages) that the
training file never uses. Knows no model and reads no data set; `backend/data/overlap.py` compares the result with
evaluation sets.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prompt_content import code, instructions, maths, passages, qa, talk

HELDOUT_SHARE = 0.05
ROOT = Path(__file__).resolve().parent.parent
Turns = tuple[str, ...]
Maker = Callable[[bool, random.Random], list[Turns]]

DEMO = [
    ("code", ("Write a Python function that checks whether a number is prime, with a docstring.",)),
    ("explain", ("Explain in simple words why the sea has tides.",)),
    ("list", ("List the days of the week with one good habit for each.",)),
    ("story", ("Tell a very short story about a robot that learns to bake bread.",)),
    ("math", ("A baker makes 24 rolls and packs them in bags of 5. How many bags are full, and how many are left?",)),
    ("correct", ("Copy this text and correct the spelling: The wether was realy nice, so we walkd until sunset.",)),
    ("email", ("Write a short email that invites colleagues to a picnic on Friday.",)),
    ("dialogue", ("What is a good first plant for a dark room?", "How often should I water it?")),
]

COMPLETIONS = ["Complete the code I provided.\n\n{}"] * 5 + ["Complete the code I provided.\n{}"] * 2 + [
    "Complete this function.\n\n{}", "Fill in the body of this Python function:\n\n{}",
    "```python\n{}```\nPlease finish the code.",
]
IMPERATIVES = {
    "count", "compute", "remove", "convert", "sort", "find", "merge", "add", "list", "build", "replace", "format",
    "split",
}
ROLE_WORDINGS = [
    "You are {}. Stay in this role. {}", "Act as {} and answer me. {}", "Let us play a game: you are {}. {}",
]
LIMITS = [
    "", "", "", "", " Keep it under 150 words.", " Use simple language.", " Give it a title.", " Make it funny.",
    " End with a question.",
]


def split(items: Sequence[str], held: bool, salt: str, at_least: int = 1) -> list[str]:
    """Return the held-out items or all others; the choice depends on the items and the salt only."""
    count = max(at_least, round(len(items) * HELDOUT_SHARE))
    chosen = set(random.Random(salt).sample(range(len(items)), count))
    return [item for index, item in enumerate(items) if (index in chosen) == held]


def family(lines: Iterable[str]) -> list[str]:
    """Expand `wording with {} | filling ; filling` lines."""
    out = []
    for line in lines:
        wording, fillings = line.split(" | ", 1)
        out += [wording.replace("{}", filling.strip()) for filling in fillings.split(" ; ")]
    return out


def number(low: int, high: int, step: int, rng: random.Random) -> int:
    """A whole number in the closed range; a step above 1 asks for one of its multiples."""
    return rng.choice([n for n in range(low, high + 1) if n % step == 0] or [low])


def fill_braces(text: str, words: dict[str, str], rng: random.Random) -> str:
    """Fill `{word}`, `{a:LOW-HIGH}` and `{a:LOW-HIGH/STEP}`; a repeated number field keeps its value."""
    values = dict(words)

    def value(match: re.Match[str]) -> str:
        name, low, high, step = match.groups()
        if name not in values:
            values[name] = str(number(int(low), int(high), int(step or 1), rng))
        return values[name]

    return re.sub(r"\{(\w+)(?::(\d+)-(\d+)(?:/(\d+))?)?\}", value, text)


def function_parts(spec: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Split a specification into signature, description and (call, result) pairs."""
    signature, description, examples = spec.split(" | ")
    name = signature.split("(", 1)[0]
    pairs = [example.split(" => ") for example in examples.split(" ; ")]
    return signature, description, [(f"{name}({arguments})", result) for arguments, result in pairs]


def completion(spec: str, rng: random.Random) -> str:
    """A function head with its docstring, to be completed."""
    signature, description, examples = function_parts(spec)
    quotes = rng.choice(['"""', '"""', "'''"])
    style = rng.randrange(4)
    if style == 0:
        lines = [f"    >>> {call}\n    {result}" for call, result in examples]
    elif style == 1:
        lines = [f"    {call} ➞ {result}" for call, result in examples]
        lines.insert(0, "    Examples:")
    elif style == 2:
        lines = [f"    {call} should return {result}." for call, result in examples]
        lines.insert(0, "    For example:")
    else:
        lines = [f"    {call} == {result}" for call, result in examples]
    lead = "" if style == 0 else "\n    "
    body = f"def {signature}:\n    {quotes}{lead}{description}\n" + "\n".join(lines) + f"\n    {quotes}\n"
    return rng.choice(COMPLETIONS).replace("{}", body)


def described(spec: str, rng: random.Random) -> str:
    """The same kind of task in prose."""
    signature, description, examples = function_parts(spec)
    call, result = rng.choice(examples)
    name = call.split("(")[0]
    what = description[0].lower() + description[1:]
    return rng.choice([
        f"Write a Python function `{signature}`. {description} For instance, `{call}` gives `{result}`.",
        f"I need a Python function. {description} Call it {name} and show how it is used.",
        f"Please implement `{signature}` in Python and explain your code. {description}",
        f"Write {name} in Python together with three assert statements. {description}",
        f"In Python, how do I {what.rstrip('.')}? Please give a function with a short comment."
        if what.split()[0] in IMPERATIVES else f"Show me a clear Python solution with comments. {description}",
    ])


def make_code(held: bool, rng: random.Random) -> list[Turns]:
    specs = split(code.FUNCTIONS, held, "functions")
    prompts = [completion(spec, rng) for spec in specs] + [described(spec, rng) for spec in specs]
    prompts += [task.replace("\\n", "\n") for task in split(code.TASKS, held, "tasks")]
    return [(prompt,) for prompt in prompts]


def make_qa(held: bool, rng: random.Random) -> list[Turns]:
    return [(question,) for question in split(qa.QUESTIONS + family(qa.FAMILIES), held, "qa")]


def make_math(held: bool, rng: random.Random) -> list[Turns]:
    prompts = []
    for frames, copies in ((maths.FRAMES, 6), (maths.EXERCISES, 5)):
        for frame in split(frames, held, "math", at_least=2):
            for _ in range(copies):
                p, q = rng.sample(maths.NAMES, 2)
                words = {"p": p, "q": q, "thing": rng.choice(maths.THINGS)}
                story = fill_braces(frame, words, rng)
                prompts.append(rng.choice(maths.ASKS).replace("{s}", story) if frames is maths.FRAMES else story)
    return [(prompt,) for prompt in prompts]


def make_instruction(held: bool, rng: random.Random) -> list[Turns]:
    items = instructions.SINGLES + family(instructions.FAMILIES)
    return [(item,) for item in split(items, held, "instruction")]


def passage(frame: str, extras: Sequence[str], rng: random.Random) -> str:
    """Fill one frame: choices first, then slots; `extras` may add a paragraph of background."""
    paragraphs = frame.splitlines()
    for extra in rng.sample(list(extras), rng.randint(1, 5)) if extras else []:
        paragraphs.insert(rng.randint(2, len(paragraphs) - 1), extra)
    text = "\n".join(paragraphs)
    text = re.sub(r"\[([^\]]*)\]", lambda m: rng.choice(m.group(1).split("|")), text)
    values: dict[str, str] = {}

    def value(match: re.Match[str]) -> str:
        name, low, high = match.groups()
        if name not in values:
            values[name] = str(rng.randint(int(low), int(high))) if low else rng.choice(passages.SLOTS[name])
        return values[name]

    text = re.sub(r"<(\w+)(?::(\d+)-(\d+))?>", value, text)
    return re.sub(r"(^|[.!?]\s|\n)([a-z])", lambda m: m.group(1) + m.group(2).upper(), text)


def make_summary(held: bool, rng: random.Random) -> list[Turns]:
    prompts = []
    for frame in split(passages.FRAMES, held, "summary", at_least=2):
        for _ in range(6 if held else 13):
            text = passage(frame, [] if held else passages.EXTRAS, rng)
            if rng.random() < 0.5:
                text = text.replace("\n", " ")
            prompts.append(rng.choice(passages.ASKS).replace("{s}", text))
    return [(prompt,) for prompt in prompts]


def make_dialogue(held: bool, rng: random.Random) -> list[Turns]:
    rows: list[Turns] = [tuple(line.split(" || ")) for line in split(talk.DIALOGUES, held, "dialogue")]
    for line in split(talk.ROLES, held, "roles"):
        role, turns = line.split(" | ")
        first, second = turns.split(" ; ")
        wording = rng.choice(ROLE_WORDINGS)
        rows.append((wording.replace("{}", role, 1).replace("{}", first, 1), second))
        rows.append((f"Pretend to be {role}. Introduce yourself in three sentences.", second))
    for opener in split(family(talk.OPENERS), held, "openers"):
        rows += [(opener, rng.choice(talk.FOLLOW_UPS))]
        if rng.random() < 0.3:
            rows += [(opener, *rng.sample(talk.FOLLOW_UPS, 2))]
    return rows


def make_writing(held: bool, rng: random.Random) -> list[Turns]:
    return [(item + rng.choice(LIMITS),) for item in split(family(talk.WRITING), held, "writing")]


def make_reasoning(held: bool, rng: random.Random) -> list[Turns]:
    prompts: dict[str, Turns] = {}  # keyed without the people, so that no two differ by a name alone
    for frame in split(talk.REASONING, held, "reasoning"):
        for _ in range(9):
            words = {name: rng.choice(options) for name, options in talk.REASONING_SLOTS.items()}
            puzzle = fill_braces(frame, words | {name: f"<{name}>" for name in "pqr"}, rng)
            text = puzzle
            for name, person in zip("pqr", rng.sample(talk.PEOPLE, 3), strict=True):
                text = text.replace(f"<{name}>", person)
            prompts.setdefault(puzzle, (text,))
    return list(prompts.values())


def make_extraction(held: bool, rng: random.Random) -> list[Turns]:
    prompts = []
    for note in split(talk.NOTES, held, "notes"):
        for ask in talk.EXTRACTION:
            p, q, r = rng.sample(talk.PEOPLE, 3)
            first, second = sorted(rng.sample(range(12), 2))
            words = {"p": p, "q": q, "r": r, "street": rng.choice(talk.STREETS)}
            words |= {"date": talk.DATES[first], "date2": talk.DATES[second]}
            prompts.append((ask.replace("\\n", "\n").replace("{note}", fill_braces(note, words, rng)),))
    return prompts


MAKERS: dict[str, Maker] = {
    "code": make_code, "math": make_math, "qa": make_qa, "instruction": make_instruction, "summary": make_summary,
    "dialogue": make_dialogue, "writing": make_writing, "reasoning": make_reasoning, "extraction": make_extraction,
}


def build(held: bool, seed: int) -> list[dict[str, object]]:
    """All rows of one file, without equal prompts, in a mixed order (so that any first N rows hold every category)."""
    rows, seen = [], set()
    for category, make in MAKERS.items():
        for turns in make(held, random.Random(f"{seed}:{category}:{held}")):
            key = re.sub(r"\W+", " ", " / ".join(turns).lower()).strip()
            if key in seen:
                continue
            seen.add(key)
            name = f"{'heldout' if held else 'train'}-{category}-{len(rows):04d}"
            rows.append({"question_id": name, "category": category, "turns": list(turns)})
    random.Random(f"{seed}:order:{held}").shuffle(rows)
    return rows


def write(path: Path, rows: Iterable[dict[str, object]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "prompts", help="folder for the three files")
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / "train.jsonl", build(False, options.seed))
    write(options.out / "heldout.jsonl", build(True, options.seed))
    write(options.out / "demo.jsonl", [
        {"question_id": f"demo-{name}", "category": name, "turns": list(turns)} for name, turns in DEMO])


if __name__ == "__main__":
    main()
