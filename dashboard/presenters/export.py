"""The Export page's form as plain values: which drafters can be handed on, for whom, with which tree. Pure functions.

What the fields are comes from the job's config; here stands only what a person sees first and how it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.jobs.export_config import ExportJobConfig
from dashboard.presenters.schema_form import FormField, form_fields, with_choices

GROUPS: Final = (("what", "What is handed on"), ("where", "To whom"))
ENGINES: Final = (
    ("vLLM", "vllm"),
    ("SGLang", "sglang"),
    ("The reference's decoder for Hydra", "hydra"),
    ("Headway itself, in another dtype", "own"),
)
_LABELS: Final[Mapping[str, str]] = {
    "engine": "Who reads it", "out": "Folder", "tuned": "Tree", "num_tokens": "Tokens drafted at a time",
    "speculators": "In the speculators format", "full_head": "Whole vocabulary", "embedding": "Copy of the embedding",
    "dtype": "Numbers", "force": "Force a target of another version",
}  # fmt: skip
_HELP: Final[Mapping[str, str]] = {
    "drafter": "Trained heads; or the folder that training wrote.",
    "engine": "Who serves it decides how the folder looks.",
    "tuned": "What is served; not set: the tree stored with the drafter. Those you kept on the Trees page are offered.",
    "out": "Not set: DRAFTER-ENGINE among the exports in Headway's home folder.",
}
_GROUP_OF: Final[Mapping[str, str]] = {"drafter": "what", "target": "what", "tuned": "what"}
_MORE: Final = ("num_tokens", "speculators", "full_head", "embedding", "dtype", "force", "name")
UNTRAINED: Final = ("ngram", "none", "used")  #: families that have no folder to hand on


def export_fields(
    drafters: Sequence[Mapping[str, Any]], targets: Sequence[tuple[str, str]], tuned: Sequence[tuple[str, str]]
) -> tuple[FormField, ...]:
    """The fields. `drafters`: as the engine offers them; `tuned`: (label, id of a tuning job)."""
    fields = form_fields(ExportJobConfig, groups=_GROUP_OF, labels=_LABELS, more=_MORE)
    fields = tuple(
        replace(field, group=field.group or "where", help=_HELP.get(field.path, field.help)) for field in fields
    )
    fields = with_choices(fields, "drafter", [(str(one["name"]), str(one["spec"])) for one in drafters], other=True)
    fields = with_choices(fields, "engine", ENGINES)
    fields = with_choices(fields, "tuned", tuned, other=True)
    return with_choices(fields, "target", targets, other=True)


def trained(offered: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The drafters that have a folder."""
    return [one for one in offered if one["family"] not in UNTRAINED and not str(one["spec"]).startswith("draft:")]


def tuned_choices(jobs: Iterable[Any], drafter: str) -> list[tuple[str, str]]:
    """(label, id) of the trees that were tuned for this drafter, the newest first."""
    return [
        (f"tuned: {(job.result or {}).get('num_nodes', 0)} nodes, {job.name}", str(job.id))
        for job in jobs
        if (job.result or {}).get("drafter") == drafter and (job.result or {}).get("num_nodes")
    ]


def export_name(config: Mapping[str, Any]) -> str:
    """How a list calls it: as the person named it, else what goes to whom."""
    engine = dict((value, label) for label, value in ENGINES[:2]).get(str(config["engine"]), str(config["engine"]))
    return str(config.get("name") or f"{Path(str(config['drafter'])).name} for {engine}")[:80]
