"""Tables out of a calibration: hits by depth and rank, overall and given that the path so far was right, by domain,
temperature and context, and confidence against what came true. Every rate with its counts and an interval over prompts.

Knows numbers; no drafter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.analysis.bootstrap import Interval, interval, ratio_draws
from backend.analysis.calibration import (
    LEAF,
    UNKNOWN,
    Ranks,
    Walk,
    context_bucket,
    probability,
)
from backend.trees.search import HitTable
from backend.trees.shapes import Path, TreeShape

NUM_BINS = 10  #: of confidence
FEWEST_CONDITIONAL = 30  #: times a path has to have been right before rates of its own are believed


@dataclass(frozen=True)
class Rate:
    """hits of tried; None without a try."""

    hits: int
    tried: int
    rate: float | None
    interval: Interval | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def rate_of(hits: Sequence[int], tried: Sequence[int]) -> Rate:
    """From counts a prompt."""
    used = [(h, t) for h, t in zip(hits, tried, strict=True) if t]
    if not used:
        return Rate(0, 0, None, None)
    all_hits, all_tried = sum(h for h, _ in used), sum(t for _, t in used)
    between = interval(ratio_draws([h for h, _ in used], [t for _, t in used], "calibration"), len(used))
    return Rate(all_hits, all_tried, all_hits / all_tried, between)


@dataclass(frozen=True)
class HitRates:
    """[depth][rank]. marginal: of all positions, whatever came before (only where the candidates of a depth do not
    depend on the path); conditional: of the positions where the path so far was right and candidates were drafted.
    """

    marginal: tuple[tuple[Rate, ...], ...]
    conditional: tuple[tuple[Rate, ...], ...]
    positions: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def hit_rates(walks: Sequence[Walk], max_rank: int, parallel: bool) -> HitRates:
    """`parallel`: the candidates of a depth are the same under every path."""
    depth = max((walk.ranks.shape[1] for walk in walks), default=0)
    marginal, conditional = [], []
    for d in range(depth):
        known = [walk.ranks[:, d][(walk.ranks[:, d] != UNKNOWN) & (walk.ranks[:, d] != LEAF)] for walk in walks]
        reached = [ranks_when_right(walk.ranks, d, max_rank) for walk in walks]
        marginal.append(_by_rank(known, max_rank) if parallel else ())
        conditional.append(_by_rank(reached, max_rank))
    return HitRates(tuple(marginal), tuple(conditional), sum(len(walk.ranks) for walk in walks))


def ranks_when_right(ranks: Ranks, depth: int, max_rank: int) -> Ranks:
    """The ranks at a depth (from 0) of the positions where all before it were right and candidates were drafted."""
    before = ranks[:, :depth]
    right = ((before >= 0) & (before < max_rank)).all(axis=1)
    found = ranks[right, depth]
    kept: Ranks = found[(found != UNKNOWN) & (found != LEAF)]
    return kept


def _by_rank(found: Sequence[Ranks], max_rank: int) -> tuple[Rate, ...]:
    counts = np.array([np.bincount(ranks[ranks < max_rank], minlength=max_rank) for ranks in found])
    tried = [len(ranks) for ranks in found]
    return tuple(rate_of(counts[:, rank].tolist(), tried) for rank in range(max_rank))


def hit_table(walks: Sequence[Walk], max_rank: int, parallel: bool) -> HitTable:
    """Rates for a search: those of each depth, and of each path that was right often enough to have its own."""
    rates = hit_rates(walks, max_rank, parallel)
    rows = rates.marginal if parallel else rates.conditional
    hits = [[rate.rate or 0.0 for rate in row] for row in rows]
    while hits and not any(hits[-1]):
        hits.pop()
    return HitTable(hits, _conditional(walks, max_rank))


def _conditional(walks: Sequence[Walk], max_rank: int) -> dict[Path, list[float]]:
    counts: dict[Path, NDArray[np.int64]] = {}
    tried: dict[Path, int] = defaultdict(int)
    for walk in walks:
        for row in walk.ranks.tolist():
            for depth, rank in enumerate(row):
                if rank in (UNKNOWN, LEAF):
                    break
                path = tuple(row[:depth])
                tried[path] += 1
                if rank >= max_rank:
                    break
                counts.setdefault(path, np.zeros(max_rank, dtype=np.int64))[rank] += 1
    return {path: (n / tried[path]).tolist() for path, n in counts.items() if tried[path] >= FEWEST_CONDITIONAL}


# -- by group ----------------------------------------------------------------------------------------------------------


def by_group(walks: Sequence[Walk], max_rank: int, parallel: bool) -> dict[str, dict[str, Any]]:
    """{domain: {name: rates by depth}, temperature: ..., context: ...}: how often the best guess is right."""
    found: dict[str, dict[str, Any]] = {}
    for title, groups in (
        ("domain", _grouped(walks, lambda walk: walk.category or "all")),
        ("temperature", _grouped(walks, lambda walk: f"{walk.temperature:g}")),
        ("context", _by_context(walks)),
    ):
        found[title] = {name: _first_ranks(group, max_rank, parallel) for name, group in sorted(groups.items())}
    return found


def _first_ranks(walks: Sequence[Walk], max_rank: int, parallel: bool) -> list[dict[str, Any]]:
    rates = hit_rates(walks, max_rank, parallel)
    return [row[0].to_dict() for row in rates.conditional if row]


def _grouped(walks: Iterable[Walk], name: Any) -> dict[str, list[Walk]]:
    groups: dict[str, list[Walk]] = defaultdict(list)
    for walk in walks:
        groups[name(walk)].append(walk)
    return groups


def _by_context(walks: Iterable[Walk]) -> dict[str, list[Walk]]:
    """Positions of an answer fall into the bucket of their own context."""
    groups: dict[str, list[Walk]] = defaultdict(list)
    for walk in walks:
        names = [context_bucket(walk.prompt_tokens + t) for t in range(len(walk.ranks))]
        for name in dict.fromkeys(names):
            places = [t for t, one in enumerate(names) if one == name]
            part = Walk(
                walk.prompt, walk.category, walk.temperature, walk.prompt_tokens, walk.ranks[places],
                walk.confidence[places],
            )  # fmt: skip
            groups[name].append(part)
    return groups


# -- confidence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReliabilityBin:
    """Guesses whose confidence fell between low and high, at depth d: how often they were right."""

    depth: int
    low: float
    high: float
    mean_confidence: float
    rate: Rate

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def reliability(walks: Sequence[Walk], shape: TreeShape, max_rank: int, parallel: bool) -> list[ReliabilityBin]:
    """Confidence against what came true, of the candidates under a path that was right. `shape`: what was drafted."""
    counts = [_confidence_counts(walk, shape, max_rank, parallel) for walk in walks]
    if not counts:
        return []
    tried, hits, sums = (np.stack([one[i] for one in counts]) for i in range(3))  # each [P, K, bins]
    found = []
    for depth in range(tried.shape[1]):
        for bin_ in range(NUM_BINS):
            whole = tried[:, depth, bin_].sum()
            if whole:
                found.append(
                    ReliabilityBin(
                        depth + 1, bin_ / NUM_BINS, (bin_ + 1) / NUM_BINS, float(sums[:, depth, bin_].sum() / whole),
                        rate_of(hits[:, depth, bin_].astype(int).tolist(), tried[:, depth, bin_].astype(int).tolist()),
                    )
                )  # fmt: skip
    return found


def _confidence_counts(walk: Walk, shape: TreeShape, max_rank: int, parallel: bool) -> tuple[NDArray[Any], ...]:
    """tried, hits, sum of confidences, each [K, bins]."""
    depth_count = walk.ranks.shape[1]
    shaped = (depth_count, NUM_BINS)
    tried, hits, sums = np.zeros(shaped), np.zeros(shaped), np.zeros(shaped)
    probs = probability(walk.confidence)
    alive = np.ones(len(walk.ranks), dtype=bool)
    for depth in range(depth_count):
        ranks = walk.ranks[:, depth]
        here = alive & (ranks != UNKNOWN) & (ranks != LEAF)
        for path, column in children_at(shape, depth, parallel):
            on = here if parallel or not depth else here & (walk.ranks[:, :depth] == np.array(path[:-1])).all(axis=1)
            p = probs[on, column]
            known = ~np.isnan(p)
            bins = np.minimum((p[known] * NUM_BINS).astype(int), NUM_BINS - 1)
            np.add.at(tried[depth], bins, 1)
            np.add.at(hits[depth], bins, (ranks[on] == path[-1])[known])
            np.add.at(sums[depth], bins, p[known])
        alive = here & (ranks < max_rank)
    return tried, hits, sums


def children_at(shape: TreeShape, depth: int, parallel: bool) -> list[tuple[Path, int]]:
    """(path, place in the confidence array) of the nodes at a depth (from 0)."""
    return [(path, place) for place, path in enumerate(shape.paths) if len(path) == depth + 1]
