"""What is the Audit page's own: its fields, what they begin with, and the quick audit of the built-in heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.audit_config import AuditJobConfig
from dashboard.pages.job_form import DrafterFormHandlers
from dashboard.presenters.audit import GROUPS, audit_fields, audit_name
from dashboard.runs import one_sentence

QUICK = {"target": "smollm2-135m", "drafter": "builtin-medusa", "minutes": 2.0, "greedy_answers": 6}


class AuditHandlers(DrafterFormHandlers):
    kind, config, start, groups = "audit", AuditJobConfig, "Audit", GROUPS
    named, described = ("tree", "rule"), staticmethod(audit_fields)

    def quick(self) -> dict[str, Any]:
        """The built-in heads, for two minutes."""
        try:
            return self.started(AuditJobConfig.model_validate(QUICK).model_dump(mode="json"))
        except Exception as error:
            return self.shown(None, one_sentence(error))

    def name_of(self, data: Mapping[str, Any]) -> str:
        return audit_name(data)
