"""How large a draft vocabulary has to be: coverage of the target's own tokens, and the acceptance that it allows.

A drafter with Vd tokens can never guess another one: wherever the target writes a token outside the map, a chain ends.
So a vocabulary has a ceiling on the acceptance length, whatever the drafter learns: that of a drafter which is right
about every token it can draft. It is counted here on answers. Torch-free; knows no model and no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

EVERYTHING: Final = "all"  #: name of all domains together
ROUNDED_TO: Final = 64  #: recommended sizes are multiples, which matrix products like


class TokenizedAnswer(Protocol):
    """A prompt and what the target answered, as token ids."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def answer_ids(self) -> Sequence[int]: ...


class AnswerOfDomain(TokenizedAnswer, Protocol):
    """An answer that says what its prompt is about."""

    @property
    def category(self) -> str: ...


def token_order(answers: Iterable[TokenizedAnswer], vocab_size: int, always: Iterable[int] = ()) -> list[int]:
    """All tokens, those first that a draft vocabulary should hold first: a vocabulary of size Vd is the first Vd.

    First `always` (end tokens, say), then by frequency in the answers, then by frequency in the prompts, then by token
    number (byte-pair vocabularies are numbered by how early a token was merged, so low numbers are the commoner ones).
    """
    in_answers: Counter[int] = Counter()
    in_prompts: Counter[int] = Counter()
    for answer in answers:
        in_answers.update(answer.answer_ids)
        in_prompts.update(answer.prompt_ids)
    forced = set(always)
    return sorted(range(vocab_size), key=lambda t: (t not in forced, -in_answers[t], -in_prompts[t], t))


@dataclass(frozen=True)
class Ceiling:
    """What a drafter that is right about every token of its vocabulary reaches with a chain of one depth.

    num_steps: whole steps; num_accepted: drafted tokens committed in them.
    """

    depth: int
    num_steps: int
    num_accepted: int

    @property
    def acceptance_length(self) -> float:
        return 1 + self.num_accepted / self.num_steps if self.num_steps else 1.0


@dataclass(frozen=True)
class CurvePoint:
    """One size of vocabulary in one domain: `covered` of `tokens` answer tokens can be drafted."""

    size: int
    domain: str
    tokens: int
    covered: int
    ceilings: tuple[Ceiling, ...]

    @property
    def coverage(self) -> float:
        return self.covered / self.tokens if self.tokens else 1.0


class VocabularyCurve:
    """Answers counted once by the rank that each of their tokens has in a token order.

    order: every token once; answers: those to count on, best ones that the order was not made from.
    """

    def __init__(self, order: Sequence[int], answers: Iterable[AnswerOfDomain]) -> None:
        self.vocab_size = len(order)
        rank_of = np.empty(self.vocab_size, dtype=np.int64)
        rank_of[np.asarray(order)] = np.arange(self.vocab_size)
        ranks: dict[str, list[Ints]] = {}
        for answer in answers:
            if answer.answer_ids:
                found = rank_of[np.asarray(answer.answer_ids)]
                for domain in (EVERYTHING, answer.category):
                    ranks.setdefault(domain, []).append(found)
        self._ranks: Mapping[str, list[Ints]] = ranks

    @property
    def domains(self) -> list[str]:
        """All together first, then by name."""
        return sorted(self._ranks, key=lambda name: (name != EVERYTHING, name))

    def point(self, size: int, domain: str = EVERYTHING, depths: Sequence[int] = ()) -> CurvePoint:
        """What a vocabulary of `size` tokens covers, and the ceiling for chains of these depths.

        Raises ValueError for a size outside 1..vocab_size or a depth below 1.
        """
        if not 1 <= size <= self.vocab_size or any(depth < 1 for depth in depths):
            raise ValueError(f"size must be in 1..{self.vocab_size} and depths at least 1; got {size}, {list(depths)}")
        ranks = self._ranks[domain]
        outside = [np.flatnonzero(answer >= size) for answer in ranks]
        tokens = sum(map(len, ranks))
        runs, open_runs = _runs(ranks, outside)
        ceilings = tuple(_ceiling(runs, open_runs, depth) for depth in depths)
        return CurvePoint(size, domain, tokens, tokens - sum(map(len, outside)), ceilings)

    def size_for(self, coverage: float, domain: str = EVERYTHING) -> int:
        """The smallest vocabulary that covers this share of the domain's tokens, rounded up to a multiple of 64.

        Raises ValueError for a share outside (0, 1].
        """
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage must be above 0 and at most 1; got {coverage}")
        counts = np.bincount(np.concatenate(self._ranks[domain]), minlength=self.vocab_size).cumsum()
        needed = int(np.searchsorted(counts, np.ceil(coverage * counts[-1] - 1e-9))) + 1
        return min(-(-needed // ROUNDED_TO) * ROUNDED_TO, self.vocab_size)


def _runs(ranks: Sequence[Ints], outside: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Lengths of stretches of draftable tokens: those ended by a token outside, and those ended by the answer.

    An answer's first token comes with the prompt and is never drafted.
    """
    closed, opened = [], []
    for answer, places in zip(ranks, outside, strict=True):
        ends = np.concatenate([[0], places[places > 0], [len(answer)]])  # as if the first token were outside
        lengths = np.diff(ends) - 1
        closed.append(lengths[:-1])
        opened.append(lengths[-1:])
    return np.concatenate(closed), np.concatenate(opened)


def _ceiling(runs: Ints, open_runs: Ints, depth: int) -> Ceiling:
    """A step takes `depth` tokens of a stretch and one more as its bonus, or what is left and the token that ended it.

    A step that the answer's end cuts short is not counted: it tells of the answer's length, not of the vocabulary.
    """
    whole = int((runs // (depth + 1)).sum() + (open_runs // (depth + 1)).sum())
    rest = int((runs % (depth + 1)).sum())
    return Ceiling(depth, whole + len(runs), whole * depth + rest)


def sizes_up_to(largest: int, smallest: int = 256) -> list[int]:
    """Sizes for a curve: powers of two and the middles between them, the whole vocabulary last."""
    found, size = [], smallest
    while size < largest:
        found += [size] if size + size // 2 >= largest else [size, size + size // 2]
        size *= 2
    return [*found, largest]
