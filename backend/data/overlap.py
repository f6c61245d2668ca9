"""Shared word sequences between prompts and evaluation sets, so that nothing is trained on what it is judged by.

Compares words only: lower case, punctuation as blanks. Knows no tokenizer and no meaning. The smaller side is held as
an index of word runs, the larger one passes by row by row and is never kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.data.prompts import Prompt, iter_prompts
from backend.errors import HeadwayError

WORDS_SHARED = 8
MAX_HITS = 1000
_WORD = re.compile(r"[^\W_]+")
Place = tuple[str, str]  # file, question id


@dataclass(frozen=True, order=True)
class Overlap:
    """A run of words that a prompt shares with a row of another file."""

    question_id: str
    other_file: str
    other_id: str
    words: str


@dataclass(frozen=True)
class LeakReport:
    """What a leak check found. `hits`: the first MAX_HITS of `num_hits`; `num_leaking`: prompts with a hit;
    `num_prompts`, `num_others`: how many rows were compared."""

    hits: tuple[Overlap, ...]
    num_hits: int
    num_leaking: int
    num_prompts: int
    num_others: int


def ngrams(text: str, n: int = WORDS_SHARED) -> set[tuple[str, ...]]:
    """All runs of `n` words. A shorter text gives itself as its only run, so that short questions match when equal.

    Raises ValueError for n < 1.
    """
    return {tuple(run.split(" ")) for run in _runs(text, n)}


def find_overlap(prompts: Iterable[Prompt], others: Mapping[str, Iterable[Prompt]], n: int = 8) -> list[Overlap]:
    """One hit for every prompt and every row (`others` maps a file name to its prompts) that share a run of `n` words.

    Only the user's turns are compared; the first shared run in alphabetical order is reported. `others` are indexed, so
    they should be the smaller side; the prompts are passed over once.
    """
    index = _index(((file, row) for file, rows in others.items() for row in rows), n)
    hits: list[Overlap] = []
    for prompt in prompts:
        hits += [Overlap(prompt.question_id, *place, run) for place, run in _matches(prompt, index, n)]
    return hits


def leak_check(
    path: str | Path,
    others: Sequence[str | Path] | Mapping[str, str],
    n: int = WORDS_SHARED,
    feed: Callable[[bytes], object] | None = None,
) -> LeakReport:
    """Compare the prompts of a file with those of evaluation files, whichever side is larger.

    `others` may map paths to the names that hits call them by. Broken rows are passed over. `feed` sees the bytes read
    of all files. Raises HeadwayError for a file that cannot be read or holds no usable prompt, and when a file is
    compared with itself.
    """
    if isinstance(others, Mapping):
        names = {Path(other): name for other, name in others.items()}
    else:
        names = _names([Path(other) for other in others])
    for other in names:
        if other.resolve() == Path(path).resolve():
            raise HeadwayError(f"{other} is the file that is checked; choose other files to compare it with.")
    sides = (_Side({Path(path): Path(path).name}, feed), _Side(names, feed))
    mine_is_small = _size([Path(path)]) < _size(list(names))
    small, large = sides if mine_is_small else sides[::-1]
    index = _index(small.rows(), n)
    hits = sorted(
        Overlap(mine[1], *other, run)
        for file, row in large.rows()
        for place, run in _matches(row, index, n)
        for mine, other in [(place, (file, row.question_id)) if mine_is_small else (("", row.question_id), place)]
    )
    return LeakReport(
        tuple(hits[:MAX_HITS]), len(hits), len({hit.question_id for hit in hits}), sides[0].count, sides[1].count
    )


class _Side:
    """One of the two sets that are compared; counts its rows as they pass."""

    def __init__(self, files: Mapping[Path, str], feed: Callable[[bytes], object] | None) -> None:
        self._files = files
        self._feed = feed
        self.count = 0

    def rows(self) -> Iterator[tuple[str, Prompt]]:
        for path, name in self._files.items():
            before = self.count
            for row in iter_prompts(path, self._feed):
                if row.prompt is not None:
                    self.count += 1
                    yield name, row.prompt
            if self.count == before:
                raise HeadwayError(f"No usable prompt in {path}; choose a file of prompts.")


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """A short name for every file: its own where that is unique, else the whole path."""
    short = [path.name for path in paths]
    return {path: path.name if short.count(path.name) == 1 else str(path) for path in paths}


def _size(paths: Sequence[Path]) -> int:
    try:
        return sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise HeadwayError(f"Cannot read {error.filename}: {error.strerror or error}.") from None


def _index(rows: Iterable[tuple[str, Prompt]], n: int) -> dict[str, list[Place]]:
    index: dict[str, list[Place]] = {}
    for file, row in rows:
        for run in _prompt_runs(row, n):
            index.setdefault(run, []).append((file, row.question_id))
    return index


def _matches(prompt: Prompt, index: Mapping[str, list[Place]], n: int) -> list[tuple[Place, str]]:
    """(place, first shared run in alphabetical order) for every indexed row that shares one; nearly always none."""
    shared: dict[Place, str] = {}
    for run in sorted(_prompt_runs(prompt, n) & index.keys()):
        for place in index[run]:
            shared.setdefault(place, run)
    return sorted(shared.items())


def _prompt_runs(prompt: Prompt, n: int) -> set[str]:
    return set().union(*(_runs(turn, n) for turn in prompt.turns))


def _runs(text: str, n: int) -> set[str]:
    """The runs of `n` words as texts with single blanks: slices of one text, which is faster than joining words."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    words = _WORD.findall(text.lower())
    if len(words) <= n:
        return {" ".join(words)} if words else set()
    joined = " ".join(words)
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    return {joined[starts[at] : starts[at + n] - 1] for at in range(len(words) - n + 1)}
