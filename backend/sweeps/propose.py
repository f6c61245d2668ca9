"""Who says which settings are tried next: a grid, chance, or Optuna (TPE, NSGA-II).

A proposer is asked for values and told how trials ended; it starts nothing and remembers nothing that the trials do not
say. Optuna has a file of its own (its tables must not stand in Headway's database), which is made again from the trials
when it is lost. Knows spaces and figures; no model, no store.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from backend.errors import HeadwayError
from backend.sweeps.knobs import Scalar
from backend.sweeps.objectives import Objective
from backend.sweeps.space import Dimension
from backend.sweeps.trial import Trial

SamplerName = Literal["grid", "random", "tpe", "nsga2"]
Proposed = dict[str, Scalar]


class Proposer(Protocol):
    """`ask` for a trial's number gives the same values again while nothing else was told; None: there are no more."""

    def ask(self, number: int) -> Proposed | None: ...

    def tell(self, trial: Trial) -> None:
        """A trial is over."""
        ...

    def close(self) -> None: ...


class GridProposer:
    """Every value with every other, the last knob changing fastest."""

    def __init__(self, space: Sequence[Dimension]) -> None:
        self._names = [one.knob.name for one in space]
        self._values = [one.grid() for one in space]

    @property
    def size(self) -> int:
        return math.prod(map(len, self._values))

    def ask(self, number: int) -> Proposed | None:
        if number >= self.size:
            return None
        found = next(itertools.islice(itertools.product(*self._values), number, None))
        return dict(zip(self._names, found, strict=True))

    def tell(self, trial: Trial) -> None:
        return None

    def close(self) -> None:
        return None


class RandomProposer:
    """Independent draws; trial n's depend on the seed and n alone."""

    def __init__(self, space: Sequence[Dimension], seed: int) -> None:
        self._space, self._seed = space, seed

    def ask(self, number: int) -> Proposed | None:
        rng = np.random.default_rng([self._seed, number])
        return {one.knob.name: one.drawn(rng) for one in self._space}

    def tell(self, trial: Trial) -> None:
        return None

    def close(self) -> None:
        return None


def proposer(
    sampler: SamplerName,
    space: Sequence[Dimension],
    objectives: Sequence[Objective],
    seed: int,
    max_drift: float | None,
    file: Path,
    trials: Iterable[Trial],
) -> Proposer:
    """The proposer of a sweep that has these trials so far; `file` is Optuna's.

    Raises HeadwayError when Optuna is needed and not installed.
    """
    if sampler == "grid":
        return GridProposer(space)
    if sampler == "random":
        return RandomProposer(space, seed)
    try:
        from backend.sweeps.optuna_proposer import OptunaProposer
    except ModuleNotFoundError as error:
        raise HeadwayError(
            f"The package {error.name} is missing; install Headway's requirements, or take the sampler grid or random."
        ) from None
    return OptunaProposer(sampler, space, objectives, seed, max_drift, file, trials)
