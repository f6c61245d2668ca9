"""The Audit page's form as plain values, and how an audit is called and told. Pure functions.

What the fields are comes from the job's config; here stands only what a person sees first and how it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.jobs.audit_config import AuditJobConfig
from dashboard.presenters.schema_form import FormField, form_fields, with_choices

GROUPS: Final = (("what", "What is audited"), ("sampling", "How it samples"), ("sure", "How sure"))
RULES: Final = (("Rejection", "rejection"), ("Typical", "typical"))
_LABELS: Final[Mapping[str, str]] = {
    "rule": "Acceptance rule", "epsilon": "ε", "delta": "δ", "top_k": "Top-k", "top_p": "Top-p", "min_p": "Min-p",
    "sampled": "Draw siblings at random", "limit": "Prompts of each file", "max_new_tokens": "Longest answer",
    "total_variation": "Deviation to find", "power": "Chance to find it", "alpha": "False alarms", "minutes": "Minutes",
    "greedy_answers": "Greedy answers", "batch": "Prompts at once", "force": "Force heads of another version",
    "out": "Certificate also to", "dtype": "Numbers",
}  # fmt: skip
_SAMPLING: Final = (
    "rule", "epsilon", "delta", "temperature", "sampled", "top_k", "top_p", "min_p", "repetition_penalty", "seed",
)  # fmt: skip
_SURE: Final = ("total_variation", "power", "alpha", "minutes", "greedy_answers", "batch")
_MORE: Final = (
    "device", "dtype", "trust_remote_code", "epsilon", "delta", "top_k", "top_p", "min_p", "repetition_penalty", "seed",
    "alpha", "power", "greedy_answers", "batch", "limit", "max_new_tokens", "force", "out", "name",
)  # fmt: skip


def audit_fields(drafters: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]) -> tuple[FormField, ...]:
    """The fields. `drafters`, `targets`: (label, what the config holds)."""
    groups = dict.fromkeys(_SAMPLING, "sampling") | dict.fromkeys(_SURE, "sure")
    fields = form_fields(AuditJobConfig, groups=groups, labels=_LABELS, more=_MORE)
    fields = tuple(field if field.group else replace(field, group="what") for field in fields)
    fields = with_choices(fields, "rule", RULES)
    fields = with_choices(fields, "drafter", drafters, other=True)
    return with_choices(fields, "target", targets, other=True)


def audit_name(config: Mapping[str, Any]) -> str:
    """How a list calls it: as the person named it, else what is audited and how."""
    tree = f", {config['tree']}" if config.get("tree") and len(str(config["tree"])) <= 20 else ""
    how = f", T {config['temperature']:g}" + (", drawn" if config.get("sampled") else "")
    typical = ", typical" if config["rule"] == "typical" else ""
    return str(config.get("name") or f"{Path(str(config['drafter'])).name}{tree}{how}{typical}")[:80]


def audit_view(job: Any) -> dict[str, Any]:
    """{conditions, verdict, sentence, findings, asked}: what the page shows of one audit; None where it is not over."""
    done = job.result or {}
    findings = done.get("findings")
    config = job.config
    conditions = [
        str(config["target"]),
        Path(str(config["drafter"])).name,
        f"tree {config['tree'] or 'of the drafter'}",
        f"{config['rule']} rule{', drawn siblings' if config['sampled'] else ''}",
        f"T {config['temperature']:g}",
    ]
    return {
        "conditions": conditions,
        "verdict": done.get("verdict"),
        "sentence": done.get("sentence"),
        "findings": findings,
        "asked": {name: config[name] for name in ("total_variation", "power", "alpha", "minutes")},
    }


def so_far(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the answers looked at until now, for a page that is watched: greedy ones have `equal`, sampled ones
    `compared`.
    """
    greedy = {"answers": 0, "tokens": 0, "equal": 0, "ties": 0, "errors": 0}
    passes: dict[str, Any] = {"answers": 0, "compared": 0, "off": 0, "largest_difference": 0.0}
    for one in answers:
        if "equal" in one:
            greedy["answers"] += 1
            for name in ("tokens", "equal", "ties", "errors"):
                greedy[name] += int(one[name])
        elif "compared" in one:
            passes["answers"] += 1
            passes["compared"] += int(one["compared"])
            passes["off"] += int(one["off"])
            passes["largest_difference"] = max(passes["largest_difference"], float(one["largest_difference"]))
    return {"greedy": greedy if greedy["answers"] else None, "passes": passes if passes["answers"] else None}
