"""A sweep as its page shows it: axes, trials as plain values, front, importance, conditions. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from backend.jobs.sweep_config import SweepJobConfig, knobs
from backend.sweeps.importance import METHOD, importances
from backend.sweeps.ledger import Ledger
from backend.sweeps.objectives import OBJECTIVES
from backend.sweeps.space import Range, shown
from backend.sweeps.trial import Trial

#: further figures of a trial that may be looked at: name -> (label, more is better)
FIGURES: Mapping[str, tuple[str, bool]] = {
    **{name: (one.label, one.maximize) for name, one in OBJECTIVES.items()},
    "kl": ("KL(emitted ‖ target)", False),
    "perplexity": ("Perplexity", False),
    "diversity": ("Seed-to-seed diversity", True),
    "distinct_1": ("Distinct 1-grams", True),
    "distinct_2": ("Distinct 2-grams", True),
    "distinct_3": ("Distinct 3-grams", True),
    "task_score": ("Task score", True),
    "drafted": ("Drafted a step", True),
    "wall_s": ("Seconds of the trial", False),
}
#: figure -> what the glossary calls it, where that differs
METRICS: Mapping[str, str] = {
    "speed": "tokens_per_s",
    "drift": "total_variation",
    "kl": "kl_divergence",
    "distinct_1": "distinct_n",
    "distinct_2": "distinct_n",
    "distinct_3": "distinct_n",
    "drafted": "nodes",
}
LIVE = ("drafter", "tree", "max_depth", "temperature", "rule", "epsilon", "delta", "sampled")
NUM_NOTES = 20


def sweep_view(
    config: SweepJobConfig, setup: Mapping[str, Any] | None, ledger: Ledger, news: Sequence[Trial]
) -> dict[str, Any]:
    """Everything but the job; of the trials only the news."""
    return {
        "knobs": axes(config, ledger),
        "goals": [goal(name) for name in config.objectives],
        "figures": [goal(name) for name in known_figures(ledger)],
        "trials": [row(config, trial) for trial in news],
        "counts": ledger.counts(),
        "front": ledger.front(),
        "best": best.number if (best := ledger.best()) is not None else None,
        "importance": importance(config, ledger),
        "method": METHOD,
        "conditions": conditions(config, setup),
        "notes": notes(ledger),
        "max_drift": config.max_drift,
        "approximate": any(one.settings.get("rule") == "typical" for one in ledger.trials.values()),
    }


def axes(config: SweepJobConfig, ledger: Ledger) -> list[dict[str, Any]]:
    """The knobs that vary: [{name, label, numeric, log, values: in the order shown}]."""
    found = []
    for one in config.dimensions:
        if one.fixed:
            continue
        numeric = one.knob.numeric
        values = None if numeric else [shown(value) for value in one.grid()]
        log = isinstance(one.tried, Range) and one.tried.log
        found.append({"name": one.knob.name, "label": one.knob.label, "numeric": numeric, "log": log, "values": values})
    return found


def goal(name: str) -> dict[str, Any]:
    label, maximize = FIGURES[name]
    return {"name": name, "label": label, "maximize": maximize, "metric": METRICS.get(name, name)}


def known_figures(ledger: Ledger) -> list[str]:
    """Figures that some trial has, in a fixed order."""
    seen = {name for one in ledger.trials.values() for name, value in one.figures.items() if value is not None}
    if any(one.wall_s is not None for one in ledger.trials.values()):
        seen.add("wall_s")
    return [name for name in FIGURES if name in seen]


def row(config: SweepJobConfig, trial: Trial) -> dict[str, Any]:
    """One trial. Knobs that mean nothing in it are left out of `values`; `live` is where to decode with it."""
    values = {name: trial.values[name] for name in trial.values if name in trial.settings}
    figures = {name: _short(trial.figures.get(name)) for name in FIGURES if trial.figures.get(name) is not None}
    if trial.wall_s is not None:
        figures["wall_s"] = _short(trial.wall_s)
    return {
        "number": trial.number,
        "state": trial.state,
        "values": {name: shown(value) if not knobs()[name].numeric else value for name, value in values.items()},
        "figures": figures if trial.state == "finished" else {},
        "settings": {name: shown(value) for name, value in trial.settings.items()},
        "feasible": trial.feasible,
        "reference": trial.reference,
        "contended": trial.contended,
        "busy": trial.others_busy,
        "reason": trial.reason,
        "live": live_link(config, trial) if trial.state == "finished" else None,
    }


def live_link(config: SweepJobConfig, trial: Trial) -> str:
    """The Live page with this setting."""
    query = {"target": config.target}
    settings = dict(trial.settings) | ({"drafter": trial.drafter} if trial.drafter else {})
    query |= {name: shown(settings[name]) for name in LIVE if settings.get(name) is not None}
    return f"/live?{urlencode(query)}"


def importance(config: SweepJobConfig, ledger: Ledger) -> dict[str, dict[str, float]]:
    """By figure, by knob; over the trials that were measured to their end."""
    varying = [one.knob.name for one in config.dimensions if not one.fixed]
    found = {}
    for name in known_figures(ledger):
        trials = [one for one in ledger.ordered()
                  if one.state == "finished" and not one.reference and one.figures.get(name) is not None]  # fmt: skip
        rows = [{key: value for key, value in one.values.items() if key in one.settings} for one in trials]
        figures = [float(one.figures[name] or 0) for one in trials]
        shares = importances(rows, figures, varying)
        if shares:
            found[name] = {knob: round(share, 4) for knob, share in shares.items()}
    return found


def conditions(config: SweepJobConfig, setup: Mapping[str, Any] | None) -> list[str]:
    if not setup:
        return []
    packages = ", ".join(f"{name} {number}" for name, number in setup["packages"].items())
    fixed = [f"{one.knob.label} {shown(one.grid()[0])}" for one in config.dimensions if one.fixed]
    prompts = len(setup["prompts"])
    return [
        f"{setup['target']}, version {str(setup['version'].get('weights_id', ''))[:12]}",
        f"{setup['device']}, {setup['dtype']}, {setup['threads']} thread{'' if setup['threads'] == 1 else 's'}",
        *fixed,
        f"{prompts} answers a trial, at most {config.max_new_tokens} new tokens, seed {config.seed}",
        packages,
    ]


def notes(ledger: Ledger) -> list[str]:
    """Why trials were skipped or failed, each reason once with how often."""
    reasons: dict[str, int] = {}
    for one in ledger.ordered():
        if one.state in ("skipped", "failed") and one.reason:
            reason = "It comes to the same as an earlier trial." if "comes to the same" in one.reason else one.reason
            reasons[reason] = reasons.get(reason, 0) + 1
    listed = [f"{count} trial{'' if count == 1 else 's'} left out: {reason}" for reason, count in reasons.items()]
    more = len(listed) - NUM_NOTES
    return listed[:NUM_NOTES] + ([f"and {more} more reasons"] if more > 0 else [])


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
