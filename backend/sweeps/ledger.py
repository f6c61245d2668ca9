"""All trials of a sweep as they stand, and what follows from them: which settings are new, what a trial is held
against, the front and the best.

Knows trials and objectives; starts nothing and remembers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.sweeps.combine import Facts, identity, impossible, meaningful
from backend.sweeps.knobs import Scalar
from backend.sweeps.objectives import Objective, front
from backend.sweeps.prune import better_trial, worth_comparing
from backend.sweeps.trial import PromptFigures, Trial

MOST_REFERENCES = 16  #: temperatures at which the exact rule is measured for comparison


@dataclass
class Ledger:
    """Trials by number; references have numbers below 0. `put` replaces one."""

    objectives: Sequence[Objective]
    facts: Facts
    max_drift: float | None = None
    trials: dict[int, Trial] = field(default_factory=dict)
    _first: dict[str, int] = field(default_factory=dict)  # identity -> the first trial that has it
    _new: set[int] = field(default_factory=set)  # trials that are not in `_first` yet

    def put(self, trial: Trial) -> Trial:
        if trial.number not in self.trials and not trial.reference:
            self._new.add(trial.number)
        self.trials[trial.number] = trial
        return trial

    @property
    def next_number(self) -> int:
        return 1 + max((number for number in self.trials if number >= 0), default=-1)

    def waiting(self) -> Trial | None:
        """The next one that is to be measured (anew), references first."""
        queued = [number for number, one in self.trials.items() if one.state == "queued"]
        return self.trials[min(queued)] if queued else None

    def proposed(self, number: int, values: Mapping[str, Scalar]) -> Trial:
        """A new trial: queued, or skipped with the reason when it can't be or has been there before."""
        settings = meaningful(values, self.facts.trained)
        trial = Trial(number, dict(values), settings)
        reason = impossible(values, self.facts)
        same = None if reason else self.same_as(settings)
        if same is not None:
            reason = f"It comes to the same as trial {same.number}."
        return self.put(replace(trial, state="skipped", reason=reason) if reason else trial)

    def same_as(self, settings: Mapping[str, Scalar]) -> Trial | None:
        """The first trial with the same settings that was not skipped itself."""
        for new in sorted(self._new):
            if self.trials[new].state != "skipped":
                self._first.setdefault(identity(self.trials[new].settings), new)
        self._new.clear()
        number = self._first.get(identity(settings))
        found = None if number is None else self.trials[number]
        return None if found is None or found.state == "skipped" else found

    def reference_for(self, trial: Trial) -> Trial | None:
        """The exact rule at the trial's temperature, where an approximate rule has nothing yet to be held against.

        What exact answers look like depends on the temperature alone, so one reference serves all its trials.
        """
        if trial.settings.get("rule") != "typical":
            return None
        temperature = trial.settings["temperature"]
        known = [one for one in self.trials.values() if one.settings.get("rule") == "rejection"]
        references = [one for one in known if one.reference]
        if len(references) >= MOST_REFERENCES or any(one.settings["temperature"] == temperature for one in known):
            return None
        values = dict(trial.values) | {"rule": "rejection"}
        settings = meaningful(values, self.facts.trained)
        return self.put(Trial(-1 - len(references), values, settings, reference=True))

    def finished(self, trial: Trial) -> Trial:
        """Put a measured trial, with what the constraint says of it."""
        drift = trial.figures.get("drift")
        allowed = self.max_drift is None or drift is None or drift <= self.max_drift
        return self.put(replace(trial, feasible=allowed))

    def beaten_by(self, prompts: Sequence[PromptFigures], plain_speed: float | None, level: float) -> Trial | None:
        """A trial that beats a running one for certain enough, see `prune`."""
        others = worth_comparing(self.trials.values(), self.objectives)
        return better_trial(prompts, plain_speed, others, self.objectives, level)

    def ordered(self) -> list[Trial]:
        return [self.trials[number] for number in sorted(self.trials)]

    def front(self) -> list[int]:
        """Numbers of the feasible trials that no other beats everywhere; references stand beside, not in it."""
        return front(self._points(), self.objectives)

    def best(self) -> Trial | None:
        """The feasible trial with the best first objective."""
        found = self.front()
        return self.trials[found[0]] if found else None

    def counts(self) -> dict[str, int]:
        """Trials by state, references left out."""
        return dict(Counter(one.state for one in self.trials.values() if not one.reference))

    def _points(self) -> dict[int, tuple[float, ...]]:
        found = {}
        for one in self.trials.values():
            goals = one.goals(self.objectives)
            if goals is not None and one.feasible and not one.reference:
                found[one.number] = goals
        return found


def table_rows(trials: Iterable[Trial], on_front: Sequence[int]) -> list[dict[str, Any]]:
    """The trials as plain rows, without their prompts."""
    rows = []
    for one in trials:
        data = one.to_dict()
        data.pop("prompts")
        rows.append(data | {"front": one.number in on_front})
    return rows
