"""The Doctor page's form as plain values, and how a diagnosis is called and told. Pure functions.

What the fields are comes from the job's config; here stands only what a person sees first and how it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.jobs.doctor_config import DoctorJobConfig
from dashboard.presenters.schema_form import FormField, form_fields, with_choices

GROUPS: Final = (("what", "Who is ill"), ("served", "How it is served"), ("more", "What is known of it"))
_LABELS: Final[Mapping[str, str]] = {
    "raw": "Prompts are raw text", "limit": "Prompts of each file", "max_new_tokens": "Longest answer",
    "answers": "Training answers", "cost": "Cost curve", "expected": "Promised number", "batch": "Prompts at once",
    "out": "Diagnosis also to", "dtype": "Numbers",
}  # fmt: skip
_SERVED: Final = ("raw", "temperature", "max_new_tokens")
_KNOWN: Final = ("answers", "cost", "expected")
_MORE: Final = ("device", "dtype", "trust_remote_code", "batch", "limit", "max_new_tokens", "seed", "out", "name")
_HOW: Final[Mapping[str, str]] = {
    "certain": "seen in files", "measured": "measured by undoing it", "estimated": "estimated", "speed": "speed",
    "hint": "a hint",
}  # fmt: skip


def doctor_fields(drafters: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]) -> tuple[FormField, ...]:
    """The fields. `drafters`, `targets`: (label, what the config holds)."""
    groups = dict.fromkeys(_SERVED, "served") | dict.fromkeys(_KNOWN, "more")
    fields = form_fields(DoctorJobConfig, groups=groups, labels=_LABELS, more=_MORE)
    fields = tuple(field if field.group else replace(field, group="what") for field in fields)
    fields = with_choices(fields, "drafter", drafters, other=True)
    return with_choices(fields, "target", targets, other=True)


def doctor_name(config: Mapping[str, Any]) -> str:
    """How a list calls it: as the person named it, else who is looked at and how it is served."""
    how = f", T {config['temperature']:g}" + (", raw" if config.get("raw") else "")
    return str(config.get("name") or f"{Path(str(config['drafter'])).name}{how}")[:80]


def doctor_view(job: Any, keys: Iterable[str] = ()) -> dict[str, Any]:
    """{conditions, verdict, sentence, causes, untested, so_far}: what the page shows of one diagnosis; verdict None
    where it is not over. `keys`: of the parts that are measured until now.
    """
    done, config = job.result or {}, job.config
    conditions = [
        str(config["target"]),
        Path(str(config["drafter"])).name,
        f"tree {config['tree'] or 'of the drafter'}",
        f"T {config['temperature']:g}{', raw prompts' if config['raw'] else ''}",
    ]
    kinds = [key.partition("|") for key in keys]
    return {
        "conditions": conditions,
        "verdict": done.get("verdict"),
        "sentence": done.get("sentence"),
        "causes": [_cause(one) for one in done.get("findings") or ()],
        "untested": _by_reason(done.get("untested") or ()),
        "so_far": {
            "answers": sum(kind.startswith("answers") for kind, _, _ in kinds),
            "trials": [name for kind, _, name in kinds if kind == "trial"],
        },
    }


def _cause(found: Mapping[str, Any]) -> dict[str, Any]:
    """A finding with its gain as {text, middle, low, high}, the last three None where it is not told in tokens."""
    told = {name: found.get(name) for name in ("kind", "sentence", "mend", "command", "told_by")}
    middle, low, high = (found.get(name) for name in ("gain", "low", "high"))
    if found["how"] == "speed":
        text, low, high = f"{100 * found['evidence']['speed_gain']:.0f} % faster", None, None
    elif high is None:
        text = "gain not known"
    elif middle is None:
        text = f"up to {high:+.2f} tokens a step"
    else:
        text = f"{middle:+.2f} tokens a step"
    evidence = [[name.replace("_", " "), _value(value)] for name, value in found["evidence"].items()]
    gain = {"text": text, "middle": middle, "low": low, "high": high}
    return told | {"how": _HOW[found["how"]], "gain": gain, "evidence": evidence}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_value(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _by_reason(untested: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    found: dict[str, list[str]] = {}
    for one in untested:
        found.setdefault(one["reason"], []).append(one["kind"])
    return [{"reason": reason, "kinds": kinds} for reason, kinds in found.items()]
