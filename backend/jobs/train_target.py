"""The target of a training in several processes: each opens its own, or all hold one together. Knows no family."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from backend.errors import HeadwayError
from backend.jobs.configs import TrainJobConfig
from backend.settings import Settings
from backend.training.processes import Processes

if TYPE_CHECKING:
    from backend.training.spread import Spread


def spread_over(processes: Processes, config: TrainJobConfig, settings: Settings) -> Spread | None:
    """The target that all processes hold together, where that is asked for; all of them come here at once.

    Raises HeadwayError where there is one process alone, and as open_target does.
    """
    if not config.spread_target:
        return None
    if processes.count == 1:
        raise HeadwayError(
            "A target is spread over the processes of torchrun, and this one is alone; start the training with it, or "
            "leave --spread-target out."
        )
    from backend.training.spread import open_spread

    return open_spread(
        config.target, settings, processes.rank, processes.count, config.device, config.dtype, config.trust_remote_code
    )


def taking_turns(processes: Processes, spread: Spread | None) -> Processes:
    """The same processes; where they hold a target together, they stand by while one of them works with it."""
    return processes if spread is None else replace(processes, turns=spread.turn)
