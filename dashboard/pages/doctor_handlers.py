"""What is the Doctor page's own: its fields and what they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.doctor_config import DoctorJobConfig
from dashboard.pages.job_form import JobFormHandlers
from dashboard.presenters.doctor import GROUPS, doctor_fields, doctor_name
from dashboard.presenters.schema_form import FormField
from dashboard.presenters.targets import offered_targets
from dashboard.runs import PERSONS_ERRORS


class DoctorHandlers(JobFormHandlers):
    kind, config, start, groups = "doctor", DoctorJobConfig, "Diagnose", GROUPS

    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the address names, else the default target and the first drafter made for it."""
        target = query.get("target") or self._services.settings.default_target
        offered = self._drafters(target)
        typed = {"target": target, "drafter": query.get("drafter") or (offered[0][1] if offered else "")}
        return typed | {name: query[name] for name in ("tree", "answers", "cost") if query.get(name)}

    def fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        first = self._services.settings.default_target
        target = str(typed.get("target") or first)
        return doctor_fields(self._drafters(target), offered_targets([first, target]))

    def follows(self, field: str, typed: dict[str, Any]) -> bool:
        return field == "target"  # another target comes with its own drafters

    def name_of(self, data: Mapping[str, Any]) -> str:
        return doctor_name(data)

    def _drafters(self, target: str) -> list[tuple[str, str]]:
        """(name, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [(str(one["name"]), str(one["spec"])) for one in offered if one["spec"] != "none"]
