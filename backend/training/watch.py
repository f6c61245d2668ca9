"""Watches the loss for a run that has gone wrong but still gives numbers. Pure arithmetic; its memory is one small
dictionary that a checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SMOOTHING = 0.9  #: part of the running mean that stays at each report


@dataclass
class LossWatch:
    """Counts reports in a row whose loss lies above `factor` times the best running mean so far; 0 `reports`: never
    stops.
    """

    factor: float
    reports: int
    mean: float | None = None
    best: float | None = None
    exploded: int = 0

    def add(self, loss: float) -> bool:
        """Take a reported loss; True when it has stayed exploded for too long."""
        self.mean = loss if self.mean is None else SMOOTHING * self.mean + (1 - SMOOTHING) * loss
        if self.best is not None and loss > self.factor * self.best:
            self.exploded += 1
        else:
            self.exploded = 0
        self.best = self.mean if self.best is None else min(self.best, self.mean)
        return 0 < self.reports <= self.exploded

    def state(self) -> dict[str, float | int | None]:
        return {"mean": self.mean, "best": self.best, "exploded": self.exploded}

    def load(self, state: Mapping[str, float | int | None]) -> None:
        self.mean, self.best = state["mean"], state["best"]
        self.exploded = int(state["exploded"] or 0)
