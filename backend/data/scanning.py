"""What a data file holds, before anything is made of it: a preview of its first rows, and a count of all of them.

Both read row by row, so a file of any size fits. Knows no tokenizer: lengths of prompts are characters, those of
answers are the tokens they already are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.data.answers import Answer, iter_answers, unpack_answers
from backend.data.prompts import Prompt, PromptRow, iter_prompts, no_prompts
from backend.data.rows import iter_rows
from backend.errors import HeadwayError

PROMPTS, ANSWERS = "prompts", "answers"
MAX_BROKEN_SHOWN = 200
MAX_CATEGORIES = 200
PLACES = 1000  # a split is told exactly for fractions of whole thousandths
LENGTH_EDGES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # bin i holds lengths below edge i
Progress = Callable[[int, int], object]  # (bytes read, bytes of the file)


@dataclass(frozen=True)
class Preview:
    """The first rows of a prompt file, and whether there are more."""

    rows: tuple[PromptRow, ...]
    more: bool


@dataclass(frozen=True)
class Scan:
    """What is in a file; everything but `path` follows from its bytes.

    `num_rows`: usable rows; `broken`: the first MAX_BROKEN_SHOWN of `num_broken` as (line, reason); `lengths`: rows by
    length (bin i: below LENGTH_EDGES[i], the last one: all longer ones), in `length_unit`; `places`: rows by the
    thousandth of [0, 1) their prompt's hash falls in; `more`: counts that only this kind of file has.
    """

    path: str
    kind: str
    content_hash: str
    num_bytes: int
    num_rows: int
    num_broken: int
    broken: tuple[tuple[int, str], ...]
    categories: dict[str, int]
    lengths: tuple[int, ...]
    length_unit: str
    places: tuple[int, ...]
    more: dict[str, Any] = field(default_factory=dict)

    def split(self, fraction: float) -> tuple[int, int]:
        """(training, held out) rows when `fraction`, a whole number of thousandths, of the prompts is held out."""
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
        held_out = sum(self.places[: round(fraction * PLACES)])
        return self.num_rows - held_out, held_out


def kind_of(path: str | Path) -> str:
    """PROMPTS or ANSWERS, by the file's first readable row. Raises HeadwayError for a file that is neither."""
    if Path(path).suffix == ".npz":
        return ANSWERS
    for row in iter_rows(path):
        if isinstance(row.value, dict):
            return ANSWERS if {"prompt_ids", "answer_ids"} <= row.value.keys() else PROMPTS
    return PROMPTS


def preview(path: str | Path, limit: int = 20) -> Preview:
    """The first `limit` rows, broken ones included. Reads no further than it must. Errors as in `iter_rows`."""
    rows: list[PromptRow] = []
    for row in iter_prompts(path):
        if len(rows) == limit:
            return Preview(tuple(rows), True)
        rows.append(row)
    return Preview(tuple(rows), False)


def scan(path: str | Path, progress: Progress | None = None) -> Scan:
    """Count a file of prompts or of answers. Raises HeadwayError when it cannot be read or has no usable row.

    `progress` may raise to stop the scan.
    """
    return scan_answers(path, progress) if kind_of(path) == ANSWERS else scan_prompts(path, progress)


def scan_prompts(path: str | Path, progress: Progress | None = None) -> Scan:
    """Count a file of prompts; see `scan`."""
    reading = _Reading(path, progress)
    counts = _Counts("characters")
    formats: Counter[str] = Counter()
    more: Counter[str] = Counter()
    special: dict[str, None] = {}
    prompts: set[float] = set()
    for row in iter_prompts(path, reading.feed):
        prompt = row.prompt
        if prompt is None:
            counts.add_broken(row.line, row.problem or "")
            continue
        place = prompt.place()
        counts.add(prompt.category, sum(map(len, prompt.turns)), place)
        formats[row.format] += 1
        more.update(_features(prompt, row, repeated=place in prompts))
        prompts.add(place)
        special |= dict.fromkeys(prompt.special_tokens)
    if not counts.num_rows:
        raise no_prompts(path, counts.broken)
    names = ("turns", "with_answers", "with_tools", "repeated_ids", "repeated_prompts")
    details = {name: more[name] for name in names} | {"formats": dict(formats), "special_tokens": list(special)}
    return reading.scan(PROMPTS, counts, details)


def scan_answers(path: str | Path, progress: Progress | None = None) -> Scan:
    """Count a file of distilled answers, growing or packed; see `scan`. Places are those that training splits by: of
    the tokens of the conversation's first prompt.
    """
    reading = _Reading(path, progress)
    counts = _Counts("tokens")
    more: Counter[str] = Counter()
    temperatures: Counter[float] = Counter()
    first: dict[str, float] = {}
    if Path(path).suffix == ".npz":
        reading.read_all()
        answers: Any = unpack_answers(path)
    else:
        answers = iter_answers(path, reading.feed)
    for answer in answers:
        if answer.turn == 0:
            first[answer.question_id] = answer.place()
        place = first.get(answer.question_id, answer.place())  # a turn is answered before the next one
        counts.add(answer.category, len(answer.answer_ids), place)
        temperatures[answer.temperature] += 1
        more.update(_answer_features(answer))
    if not counts.num_rows:
        raise HeadwayError(f"There is no answer in {path} yet; distil first, or choose another file.")
    details = dict(more) | {"temperatures": {f"{value:g}": n for value, n in sorted(temperatures.items())}}
    return reading.scan(ANSWERS, counts, details)


def content_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes in hex. Raises HeadwayError when it cannot be read."""
    reading = _Reading(path, None)
    reading.read_all()
    return reading.digest.hexdigest()


class _Reading:
    """One reading of a file from start to end: hash, bytes seen, progress."""

    def __init__(self, path: str | Path, progress: Progress | None) -> None:
        self.path = Path(path)
        self.digest = hashlib.sha256()
        self.num_bytes = 0
        self._progress = progress
        try:
            self._size = self.path.stat().st_size
        except OSError as error:
            raise HeadwayError(f"Cannot read {path}: {error.strerror or error}.") from None

    def feed(self, data: bytes) -> None:
        self.digest.update(data)
        self.num_bytes += len(data)
        if self._progress is not None:
            self._progress(self.num_bytes, self._size)

    def read_all(self) -> None:
        try:
            with self.path.open("rb") as file:
                while data := file.read(2**20):
                    self.feed(data)
        except OSError as error:
            raise HeadwayError(f"Cannot read {self.path}: {error.strerror or error}.") from None

    def scan(self, kind: str, counts: _Counts, more: dict[str, Any]) -> Scan:
        return Scan(
            path=str(self.path.absolute()), kind=kind, content_hash=self.digest.hexdigest(), num_bytes=self.num_bytes,
            num_rows=counts.num_rows, num_broken=counts.num_broken, broken=tuple(counts.broken),
            categories=counts.shown_categories(), lengths=tuple(counts.lengths), length_unit=counts.unit,
            places=tuple(counts.places), more=more,
        )  # fmt: skip


class _Counts:
    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.num_rows = self.num_broken = 0
        self.broken: list[tuple[int, str]] = []
        self.categories: Counter[str] = Counter()
        self.lengths = [0] * (len(LENGTH_EDGES) + 1)
        self.places = [0] * PLACES

    def add(self, category: str, length: int, place: float) -> None:
        self.num_rows += 1
        self.categories[category] += 1
        self.lengths[sum(length >= edge for edge in LENGTH_EDGES)] += 1
        self.places[int(place * PLACES)] += 1

    def add_broken(self, line: int, reason: str) -> None:
        self.num_broken += 1
        if len(self.broken) < MAX_BROKEN_SHOWN:
            self.broken.append((line, reason))

    def shown_categories(self) -> dict[str, int]:
        """The largest categories first; the rest of very many are one."""
        ordered = self.categories.most_common()
        rest = sum(count for _, count in ordered[MAX_CATEGORIES:])
        return dict(ordered[:MAX_CATEGORIES]) | ({"(others)": rest} if rest else {})


def _features(prompt: Prompt, row: PromptRow, repeated: bool) -> dict[str, int]:
    return {
        "turns": len(prompt.turns), "with_answers": int(prompt.num_answers > 0), "with_tools": int(bool(prompt.tools)),
        "repeated_ids": int(row.repeated_id), "repeated_prompts": int(repeated),
    }  # fmt: skip


def _answer_features(answer: Answer) -> dict[str, int]:
    return {
        "answer_tokens": len(answer.answer_ids), "prompt_tokens": len(answer.prompt_ids),
        "truncated": int(answer.truncated), "empty": int(not answer.answer_ids),
    }  # fmt: skip
