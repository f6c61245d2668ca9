"""What a calibration keeps: for every position of every answer, how far the drafter would have been right there.

Where children are chosen, a guess never decides what is written: a step accepts its guesses as far as they agree with
the text that comes anyway. So each position of an answer is a step that could have begun there, and a decode with any
tree can be replayed from what was drafted at every position, step starts included. Knows numbers; no drafter.

Ranks along the text: at each depth the rank of the right token among the candidates, MISS when it is not among them,
LEAF when no candidates were drafted there (the text has left the tree), UNKNOWN when the answer is over by then.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.analysis.bootstrap import Draws, Interval, interval, ratio_draws
from backend.trees.shapes import Path, TreeShape

MISS, UNKNOWN, LEAF = 64, -1, -2
MAX_DEPTH = 8  #: deepest tree that is calibrated
NO_OPINION = 255
STEPS_A_NAT = 24  #: how finely a confidence is kept
_BASE = MISS + 4  # of the number that stands for the ranks of a path
CONTEXTS = (0, 256, 1024, 4096)  #: where a bucket of context lengths begins

Ranks = NDArray[np.int8]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Walk:
    """One answer.

    Args:
        ranks: int8 [T, K], at each of T positions the ranks of the next K tokens.
        confidence: uint8 [T, N], what the drafter thought of each node of the drafted tree, -ln p in 24ths.
    """

    prompt: str
    category: str
    temperature: float
    prompt_tokens: int
    ranks: Ranks
    confidence: Bytes

    @property
    def num_whole(self) -> int:
        """Positions whose next K tokens are all known."""
        return int((self.ranks != UNKNOWN).all(axis=1).sum())

    def to_dict(self) -> dict[str, Any]:
        """As JSON; the arrays as base64 text."""
        return {
            "prompt": self.prompt, "category": self.category, "temperature": self.temperature,
            "prompt_tokens": self.prompt_tokens, "positions": len(self.ranks), "depth": self.ranks.shape[1],
            "nodes": self.confidence.shape[1], "ranks": _text(self.ranks), "confidence": _text(self.confidence),
        }  # fmt: skip


def walk_from_dict(data: Mapping[str, Any]) -> Walk:
    """Back from JSON. Raises KeyError or ValueError for anything else."""
    positions = data["positions"]
    return Walk(
        data["prompt"],
        data["category"],
        data["temperature"],
        data["prompt_tokens"],
        _array(data["ranks"], np.int8).reshape(positions, data["depth"]),
        _array(data["confidence"], np.uint8).reshape(positions, data["nodes"]),
    )


def kept_confidence(probs: NDArray[np.float64]) -> Bytes:
    """Probabilities as they are kept; NaN is no opinion."""
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = -np.log(probs) * STEPS_A_NAT
    return np.where(np.isnan(probs), NO_OPINION, np.clip(np.round(nats), 0, NO_OPINION - 1)).astype(np.uint8)


def probability(kept: Bytes) -> NDArray[np.float64]:
    """Back to probabilities; no opinion is NaN."""
    return np.where(kept == NO_OPINION, np.nan, np.exp(-kept.astype(np.float64) / STEPS_A_NAT))


def whole(walk: Walk) -> Ranks:
    """The ranks at positions whose next K tokens are all known; they stand first."""
    return walk.ranks[: walk.num_whole]


# -- what a tree would have accepted -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """A decode replayed: tokens and steps of every answer, in order."""

    tokens: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def acceptance_length(self) -> float:
        """nan without steps."""
        return sum(self.tokens) / sum(self.steps) if sum(self.steps) else float("nan")

    def draws(self) -> Draws:
        """Lengths with prompts resampled whole; the same draws for all trees of a calibration."""
        return ratio_draws(self.tokens, self.steps, "calibration")

    def interval(self) -> Interval | None:
        return interval(self.draws(), sum(1 for steps in self.steps if steps))


def replay(shape: TreeShape, walks: Sequence[Walk]) -> Replay:
    """Decode the answers again with a static tree of chosen children."""
    return replay_lengths([accepted_with(shape, whole(walk)) for walk in walks])


def replay_lengths(accepted: Iterable[NDArray[np.int64]]) -> Replay:
    """The same, given how many guesses a step would accept at each position of each answer."""
    tokens, steps = [], []
    for lengths in accepted:
        advances = (lengths + 1).tolist()
        at = number = 0
        while at < len(advances):
            at += advances[at]
            number += 1
        tokens.append(at)
        steps.append(number)
    return Replay(tuple(tokens), tuple(steps))


def joined(replays: Iterable[Replay]) -> Replay:
    """The answers of several replays, one after another."""
    each = list(replays)
    return Replay(tuple(n for one in each for n in one.tokens), tuple(n for one in each for n in one.steps))


def starts(accepted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions at which steps begin when one that begins at t accepts accepted[t]."""
    found, at = [], 0
    advances = (accepted + 1).tolist()
    while at < len(advances):
        found.append(at)
        at += advances[at]
    return np.asarray(found, dtype=np.int64)


def accepted_with(shape: TreeShape, ranks: Ranks) -> NDArray[np.int64]:
    """[T]: guesses that a step with this tree accepts where the ranks [T, K] come true."""
    codes = _codes(ranks)
    open_ = np.ones(len(ranks), dtype=bool)
    accepted = np.zeros(len(ranks), dtype=np.int64)
    for depth in range(1, min(shape.max_depth, ranks.shape[1]) + 1):
        inside = np.array([_code(path) for path in shape.paths if len(path) == depth], dtype=np.int64)
        open_ = open_ & np.isin(codes[:, depth - 1], inside)
        accepted += open_
    return accepted


def path_values(ranks: Ranks, max_rank: int) -> dict[Path, float]:
    """Share of the positions [T, K] at which a path of ranks below `max_rank` comes true, for all that ever did."""
    values: dict[Path, float] = {}
    for depth in range(1, ranks.shape[1] + 1):
        prefix = ranks[:, :depth]
        alive = prefix[((prefix >= 0) & (prefix < max_rank)).all(axis=1)]
        if not len(alive):
            break
        paths, counts = np.unique(alive, axis=0, return_counts=True)
        values |= {tuple(path): count / len(ranks) for path, count in zip(paths.tolist(), counts.tolist(), strict=True)}
    return values


def _code(path: Path) -> int:
    code = 0
    for rank in path:
        code = code * _BASE + rank + 3
    return code


def _codes(ranks: Ranks) -> NDArray[np.int64]:
    """[T, K]: a number for the first 1, 2, ... ranks of each position."""
    codes = np.zeros(ranks.shape, dtype=np.int64)
    last = np.zeros(len(ranks), dtype=np.int64)
    for depth in range(ranks.shape[1]):
        last = last * _BASE + ranks[:, depth].astype(np.int64) + 3
        codes[:, depth] = last
    return codes


def _text(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _array(text: str, dtype: Any) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text.encode("ascii"), validate=True), dtype=dtype)


# -- which answers -----------------------------------------------------------------------------------------------------


def context_bucket(tokens: int) -> str:
    """The bucket of context lengths that `tokens` falls into, in words."""
    for low, high in itertools.pairwise(CONTEXTS):
        if tokens < high:
            return f"{low} to {high - 1}"
    return f"from {CONTEXTS[-1]}"


def chosen(walks: Iterable[Walk], temperature: float | None = None, category: str | None = None) -> list[Walk]:
    """Those of one temperature and domain."""
    return [
        walk
        for walk in walks
        if (temperature is None or walk.temperature == temperature) and category in (None, walk.category)
    ]
