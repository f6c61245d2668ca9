"""The form that starts a distillation, as a value; drawn from the job's own config. Knows no store and no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from backend.errors import HeadwayError
from backend.jobs.configs import DistillJobConfig
from dashboard.presenters.schema_form import FormField, config_from, form_fields, problems_of, with_choices
from dashboard.presenters.targets import TARGETS

LABELS = {
    "prompts": "Prompts", "max_new_tokens": "Longest answer", "out": "Answers file", "pack": "Packed file",
    "batch": "At the same time", "turns": "Turns", "limit": "First rows only", "system": "System prompt",
    "dtype": "Number type", "trust_remote_code": "Run the model's own code",
}  # fmt: skip
MORE = ("limit", "name", "out", "pack", "device", "dtype", "trust_remote_code", "system")
ORDER = ("target", "prompts", "temperatures", "max_new_tokens", "batch", "turns", "seed", *MORE)


def distill_fields(prompts: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]] = TARGETS) -> list[FormField]:
    """The fields; `prompts` are (name, id) of the prompt sets that can be answered, `targets` (label, source)."""
    fields = form_fields(DistillJobConfig, labels=LABELS, more=MORE)
    fields = with_choices(fields, "target", targets, other=True)
    fields = with_choices(fields, "prompts", prompts)
    known = {field.path: field for field in fields}
    known["prompts"] = replace(known["prompts"], help="The prompt set that is answered.", required=True)
    rest = [path for path in known if path not in ORDER]
    return [known[path] for path in (*ORDER, *rest) if path in known]


def distill_config(
    typed: Mapping[str, Any], fields: Sequence[FormField], paths: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """(config as JSON, {field: sentence}); `paths`: the file of each prompt set by its id. With problems the config
    is empty."""
    config, problems = config_from(fields, typed)
    chosen = str(config.get("prompts") or "")
    if chosen in paths:
        config["prompts"] = [paths[chosen]]
    else:
        problems.setdefault("prompts", "Choose a prompt set; bring a file first where there is none.")
        config["prompts"] = ["none"]
    try:
        made = DistillJobConfig.model_validate(config)
    except ValidationError as error:
        return {}, {**problems_of(error, fields), **problems}
    return ({}, problems) if problems else (made.model_dump(mode="json"), {})


def refused(problems: Mapping[str, str]) -> HeadwayError:
    """The first problem as an error, for those who have no field to show it beside."""
    return HeadwayError(next(iter(problems.values())))
