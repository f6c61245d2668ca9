"""One trial of a sweep: its settings, how far it is, and what it measured. Plain JSON in and out.

Knows numbers; no model, no store, no process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from backend.sweeps.knobs import Scalar
from backend.sweeps.objectives import Objective

#: queued and running trials are measured anew by whoever goes on with the sweep; the others are over.
TrialState = Literal["queued", "running", "finished", "pruned", "skipped", "failed"]
OVER: tuple[TrialState, ...] = ("finished", "pruned", "skipped", "failed")
MEASURED: tuple[TrialState, ...] = ("finished",)
KEY = "trial {number:06d}"  #: under which a trial is remembered


@dataclass(frozen=True)
class PromptFigures:
    """What one answer gave. `key` names set, prompt and sample, so that trials are paired by it.

    tokens: those that came out of steps. drift, kl: means over them; None where drift is not measured.
    """

    key: str
    tokens: int
    steps: int
    accepted: int
    decode_ms: float
    drift: float | None = None
    kl: float | None = None

    def figure(self, name: str, plain_speed: float | None = None) -> float | None:
        """An objective's figure on this prompt alone; speeds in units of plain decoding's where that is known."""
        if name == "drift":
            return self.drift
        if name == "acceptance_length":
            return (self.accepted + self.steps) / self.steps if self.steps else None
        if name in ("speed", "speedup") and self.decode_ms:
            return 1000 * self.tokens / self.decode_ms / (plain_speed or 1.0)
        return None


@dataclass(frozen=True)
class Trial:
    """One row of a sweep.

    Args:
        values: what was proposed; settings: with everything that matters besides.
        attempt: how often it was handed to a worker; what an earlier attempt says is not believed.
        figures: what was measured, by name; objectives are among them.
        plain_speed: tokens/s of plain decoding in this trial, the measure of the machine's minute.
        reason: why it was pruned or skipped, or how it failed, as one sentence.
        reference: measured for comparison, the exact rule at a temperature; proposed by nobody.
        contended: measured without the device lease.
        wall_s: from the moment the worker took it.
    """

    number: int
    values: Mapping[str, Scalar]
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    state: TrialState = "queued"
    attempt: int = 0
    figures: Mapping[str, float | None] = field(default_factory=dict)
    prompts: tuple[PromptFigures, ...] = ()
    plain_speed: float | None = None
    feasible: bool = True
    reason: str | None = None
    reference: bool = False
    contended: bool = False
    others_busy: float | None = None
    drafter: str | None = None
    wall_s: float | None = None

    @property
    def key(self) -> str:
        return KEY.format(number=self.number)

    @property
    def over(self) -> bool:
        return self.state in OVER

    def goals(self, objectives: Sequence[Objective]) -> tuple[float, ...] | None:
        """The objectives' figures; None when one is missing or the trial was not measured to its end."""
        found = [self.figures.get(goal.name) for goal in objectives]
        known = tuple(value for value in found if value is not None)
        return known if self.state in MEASURED and len(known) == len(found) else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(replace(self, values=dict(self.values), settings=dict(self.settings), figures=dict(self.figures)))


def trial_from_dict(data: Mapping[str, Any]) -> Trial:
    """Back from JSON; unknown keys of a newer Headway are ignored."""
    names = {one.name for one in fields(Trial)}
    values = {name: value for name, value in data.items() if name in names}
    values["prompts"] = prompts_from(data.get("prompts", ()))
    return Trial(**values)


def prompts_from(rows: Iterable[Mapping[str, Any]]) -> tuple[PromptFigures, ...]:
    return tuple(PromptFigures(**row) for row in rows)


def sums(prompts: Sequence[PromptFigures]) -> dict[str, float | None]:
    """Figures over all prompts, sums divided last; drift over tokens."""
    tokens, steps = sum(p.tokens for p in prompts), sum(p.steps for p in prompts)
    spent_ms = sum(p.decode_ms for p in prompts)
    return {
        "speed": 1000 * tokens / spent_ms if spent_ms else None,
        "acceptance_length": (sum(p.accepted for p in prompts) + steps) / steps if steps else None,
        "drift": _weighted([(p.tokens, p.drift) for p in prompts]),
        "kl": _weighted([(p.tokens, p.kl) for p in prompts]),
        "tokens": float(tokens),
        "decode_s": spent_ms / 1000,
    }


def _weighted(pairs: Sequence[tuple[int, float | None]]) -> float | None:
    known = [(weight, value) for weight, value in pairs if value is not None]
    weight = sum(one for one, _ in known)
    return sum(one * value for one, value in known) / weight if weight else None


def by_key(prompts: Iterable[PromptFigures]) -> dict[str, PromptFigures]:
    return {one.key: one for one in prompts}
