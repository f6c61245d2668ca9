"""Optuna as a proposer: TPE or NSGA-II over a study in a SQLite file of its own.

Asked and told only: no trial runs here, nothing is pruned here, and whatever the file lacks is told to it again from
our own trials. Each proposal's generator is seeded anew by the sweep's seed and the trial's number, so that a sweep
that goes on proposes what it would have proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import event

from backend.sweeps.knobs import Scalar
from backend.sweeps.objectives import Objective
from backend.sweeps.space import Dimension, Range
from backend.sweeps.trial import Trial

NUMBER = "headway_trial"  #: the attribute that holds our own number
CONSTRAINT = "drift"
STATES = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
POPULATION = 20


class OptunaProposer:
    """See the module."""

    def __init__(
        self,
        sampler: str,
        space: Sequence[Dimension],
        objectives: Sequence[Objective],
        seed: int,
        max_drift: float | None,
        file: Path,
        trials: Iterable[Trial],
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._sampler, self._seed = sampler, seed
        self._objectives, self._max_drift = objectives, max_drift
        self._distributions = {one.knob.name: distribution(one) for one in space}
        self._open: dict[int, Any] = {}
        self._study, self._storage = self._opened(file)
        self._catch_up(trials)

    def ask(self, number: int) -> dict[str, Scalar] | None:
        self._study.sampler = self._new_sampler(number)
        trial = self._study.ask(self._distributions)
        trial.set_user_attr(NUMBER, number)
        self._open[number] = trial
        return dict(trial.params)

    def tell(self, trial: Trial) -> None:
        opened = self._open.pop(trial.number, None)
        if opened is None:
            self._add(trial)
            return
        goals, state = trial.goals(self._objectives), STATES.get(trial.state, TrialState.FAIL)
        if self._max_drift is not None and trial.figures.get("drift") is not None:
            opened.set_constraint(CONSTRAINT, float(trial.figures["drift"] or 0) - self._max_drift)
        if goals is None:
            self._study.tell(opened, state=TrialState.FAIL if state is TrialState.COMPLETE else state)
        else:
            self._study.tell(opened, list(goals))

    def close(self) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _opened(self, file: Path) -> tuple[optuna.Study, RDBStorage]:
        """The study in the file; a file that can't be used makes room for a new one."""
        try:
            return self._made(file)
        except Exception:  # damaged, or of another Optuna: nothing in it that our own trials don't say
            for path in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
                path.unlink(missing_ok=True)
            return self._made(file)

    def _made(self, file: Path) -> tuple[optuna.Study, RDBStorage]:
        file.parent.mkdir(parents=True, exist_ok=True)
        storage = RDBStorage(f"sqlite:///{file}", engine_kwargs={"connect_args": {"timeout": 30}})

        @event.listens_for(storage.engine, "connect")
        def _quick(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")  # a damaged file is made anew from our own trials

        up, down = optuna.study.StudyDirection.MAXIMIZE, optuna.study.StudyDirection.MINIMIZE
        directions = [up if goal.maximize else down for goal in self._objectives]
        study = optuna.create_study(
            storage=storage,
            study_name="sweep",
            directions=directions,
            sampler=self._new_sampler(0),
            load_if_exists=True,
        )
        return study, storage

    def _catch_up(self, trials: Iterable[Trial]) -> None:
        """What the file does not know yet is added, what it thinks is running is over."""
        known = set()
        for frozen in self._study.get_trials(deepcopy=False):
            if frozen.state.is_finished():
                known.add(frozen.user_attrs.get(NUMBER))
            else:
                self._study.tell(frozen.number, state=TrialState.FAIL)
        for trial in trials:
            if trial.over and not trial.reference and trial.number not in known:
                self._add(trial)

    def _add(self, trial: Trial) -> None:
        goals = trial.goals(self._objectives)
        if goals is None or set(trial.values) != set(self._distributions):
            return
        frozen = optuna.trial.create_trial(
            params=dict(trial.values),
            distributions=dict(self._distributions),
            values=list(goals),
            user_attrs={NUMBER: trial.number},
        )
        if self._max_drift is not None and trial.figures.get("drift") is not None:
            frozen.set_constraint(CONSTRAINT, float(trial.figures["drift"] or 0) - self._max_drift)
        with suppress(ValueError):  # a value that a changed space no longer holds teaches nothing
            self._study.add_trial(frozen)

    def _new_sampler(self, number: int) -> BaseSampler:
        seed = (self._seed * 1_000_003 + number) % 2**32
        if self._sampler == "nsga2":
            return NSGAIISampler(seed=seed, population_size=POPULATION)
        return TPESampler(seed=seed)


def distribution(one: Dimension) -> BaseDistribution:
    """The dimension in Optuna's words."""
    if not isinstance(one.tried, Range):
        return CategoricalDistribution(one.tried.values)
    if one.knob.kind == "whole":
        return IntDistribution(round(one.tried.low), round(one.tried.high), log=one.tried.log)
    return FloatDistribution(one.tried.low, one.tried.high, log=one.tried.log)
