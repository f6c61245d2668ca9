"""What is the Audit page's own: its fields, what they begin with, and the quick audit of the built-in heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.audit_config import AuditJobConfig
from dashboard.pages.job_form import JobFormHandlers
from dashboard.presenters.audit import GROUPS, audit_fields, audit_name
from dashboard.presenters.schema_form import FormField
from dashboard.presenters.targets import offered_targets
from dashboard.runs import PERSONS_ERRORS, one_sentence

QUICK = {"target": "smollm2-135m", "drafter": "builtin-medusa", "minutes": 2.0, "greedy_answers": 6}


class AuditHandlers(JobFormHandlers):
    kind, config, start, groups = "audit", AuditJobConfig, "Audit", GROUPS

    def quick(self) -> dict[str, Any]:
        """The built-in heads, for two minutes."""
        try:
            return self.started(AuditJobConfig.model_validate(QUICK).model_dump(mode="json"))
        except Exception as error:
            return self.shown(None, one_sentence(error))

    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the address names, else the default target and the first drafter made for it."""
        target = query.get("target") or self._services.settings.default_target
        offered = self._drafters(target)
        typed = {"target": target, "drafter": query.get("drafter") or (offered[0][1] if offered else "")}
        return typed | {name: query[name] for name in ("tree", "rule") if query.get(name)}

    def fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        first = self._services.settings.default_target
        target = str(typed.get("target") or first)
        return audit_fields(self._drafters(target), offered_targets([first, target]))

    def follows(self, field: str, typed: dict[str, Any]) -> bool:
        return field == "target"  # another target comes with its own drafters

    def name_of(self, data: Mapping[str, Any]) -> str:
        return audit_name(data)

    def _drafters(self, target: str) -> list[tuple[str, str]]:
        """(name, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [(str(one["name"]), str(one["spec"])) for one in offered if one["spec"] != "none"]
