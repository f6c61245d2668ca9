"""A calibration as a value: what was drafted along which answers, under which conditions; and as a file.

Knows records; no drafter, no store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from backend.analysis.calibration import Ranks, Walk, chosen, walk_from_dict, whole
from backend.analysis.calibration_tables import by_group, hit_rates, reliability
from backend.errors import HeadwayError
from backend.trees.shapes import TreeShape

FORMAT = 1


@dataclass(frozen=True)
class Calibration:
    """`shape`: the tree that was drafted at every position; `ranks`: candidates that were looked at; `parallel`: they
    are the same under every path.
    """

    shape: TreeShape
    ranks: int
    parallel: bool
    walks: tuple[Walk, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def only(self, temperature: float | None = None, category: str | None = None) -> Calibration:
        """The answers of one temperature and domain. Raises HeadwayError when there are none."""
        kept = chosen(self.walks, temperature, category)
        if not kept:
            raise HeadwayError(f"The calibration has nothing {self._missing(temperature, category)}.")
        return Calibration(self.shape, self.ranks, self.parallel, tuple(kept), self.conditions)

    def _missing(self, temperature: float | None, category: str | None) -> str:
        has = ", ".join(f"{value:g}" for value in self.temperatures)
        if temperature is not None and temperature not in self.temperatures:
            return f"at temperature {temperature:g}; it was made at {has or 'none'}"
        return f"of the domain {category!r}; it knows {', '.join(self.categories) or 'none'}"

    @property
    def temperatures(self) -> list[float]:
        return sorted({walk.temperature for walk in self.walks})

    @property
    def categories(self) -> list[str]:
        return sorted({walk.category for walk in self.walks})

    @cached_property
    def whole_ranks(self) -> Ranks:
        """int8 [T, K]: of all answers, the positions whose next K tokens are known."""
        parts = [whole(walk) for walk in self.walks]
        return np.concatenate(parts) if parts else np.zeros((0, self.shape.max_depth), np.int8)

    @property
    def positions(self) -> int:
        return sum(len(walk.ranks) for walk in self.walks)

    @property
    def context(self) -> int:
        """The mean context of its positions, in tokens."""
        whole_ = sum(len(walk.ranks) * (walk.prompt_tokens + len(walk.ranks) // 2) for walk in self.walks)
        return round(whole_ / max(1, self.positions))

    def check(self) -> None:
        """Raises HeadwayError when there is too little to search a tree with."""
        if not len(self.whole_ranks):
            raise HeadwayError(
                f"The calibration has no position whose next {self.shape.max_depth} tokens are known; calibrate with "
                "more prompts or longer answers."
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "conditions": dict(self.conditions),
            "shape": self.shape.to_json(),
            "ranks": self.ranks,
            "parallel": self.parallel,
            "walks": [walk.to_dict() for walk in self.walks],
        }

    def tables(self) -> dict[str, Any]:
        """Rates with counts and intervals, by depth and rank and by group, and the reliability of confidence."""
        rates = hit_rates(self.walks, self.ranks, self.parallel)
        bins = reliability(self.walks, self.shape, self.ranks, self.parallel)
        return {
            "positions": self.positions,
            "prompts": len({walk.prompt for walk in self.walks}),
            "parallel": self.parallel,
            "marginal": rates.to_dict()["marginal"],
            "conditional": rates.to_dict()["conditional"],
            "groups": by_group(self.walks, self.ranks, self.parallel),
            "reliability": [one.to_dict() for one in bins],
        }


def calibration_from(data: Any, where: str | Path) -> Calibration:
    """A stored calibration back. Raises HeadwayError for anything else, and for an empty one."""
    try:
        if data["format"] != FORMAT:
            raise ValueError("another format")
        shape = TreeShape(tuple(tuple(int(rank) for rank in path) for path in data["shape"]))
        walks = tuple(walk_from_dict(one) for one in data["walks"])
        made = Calibration(shape, int(data["ranks"]), bool(data["parallel"]), walks, dict(data["conditions"]))
        fits = all(
            walk.ranks.shape[1] == shape.max_depth and walk.confidence.shape[1] == shape.num_nodes for walk in walks
        )
    except (KeyError, TypeError, ValueError, HeadwayError):
        raise HeadwayError(f"{where} is no calibration; take a file that `calibrate` wrote.") from None
    if not fits:
        raise HeadwayError(f"{where} is damaged: its answers don't fit its tree; calibrate again.")
    if not made.positions:
        raise HeadwayError(f"{where} is empty: nothing was drafted in it; calibrate with more prompts.")
    return made


def joined(walks: Sequence[Mapping[str, Any]]) -> tuple[Walk, ...]:
    """Walks as they stand in a job's items."""
    return tuple(walk_from_dict(one) for one in walks)
