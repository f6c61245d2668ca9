"""What is the Adapters page's own: its fields and what they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.adapters_config import AdaptersJobConfig
from dashboard.pages.job_form import DrafterFormHandlers
from dashboard.presenters.adapters import GROUPS, adapters_fields, adapters_name

LISTS = ("adapter", "prompts", "traffic")  #: fields with one a line


class AdaptersHandlers(DrafterFormHandlers):
    kind, config, start, groups = "adapters", AdaptersJobConfig, "Compare", GROUPS
    named, described = ("adapter", "prompts", "traffic", "shared", "out"), staticmethod(adapters_fields)

    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the address names, else the default target; the shared drafter is trained unless one is chosen."""
        typed: dict[str, Any] = {"target": query.get("target") or self._services.settings.default_target}
        given = {name: query[name] for name in self.named if query.get(name)}
        return typed | {name: text.splitlines() if name in LISTS else text for name, text in given.items()}

    def name_of(self, data: Mapping[str, Any]) -> str:
        return adapters_name(data)
