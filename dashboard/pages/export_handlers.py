"""What is the Export page's own: its fields, and which drafter, target and tree they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from backend.jobs.export_config import ExportJobConfig
from dashboard.pages.job_form import JobFormHandlers
from dashboard.presenters.export import GROUPS, export_fields, export_name, trained, tuned_choices
from dashboard.presenters.schema_form import FormField
from dashboard.presenters.targets import offered_targets
from dashboard.runs import PERSONS_ERRORS

SHOWN = 50


class ExportHandlers(JobFormHandlers):
    kind, config, start, groups = "export", ExportJobConfig, "Export", GROUPS

    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """vLLM, and the drafter, the version's heads or the tuned tree that the address names, else the first one."""
        typed: dict[str, Any] = {"engine": "vllm"}
        offered = self._drafters()
        specs = [str(one["spec"]) for one in offered]
        typed["drafter"] = query.get("drafter") or self._of_version(query.get("version")) or (specs[0] if specs else "")
        if query.get("tuned"):
            job = self._jobs.get(query["tuned"])
            typed |= {"tuned": job.id, "drafter": (job.result or {}).get("drafter") or typed["drafter"]}
        target = self._target_of(str(typed["drafter"])) or self._services.settings.default_target
        return typed | {"target": query.get("target") or target}

    def fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        try:
            tuned = self._jobs.list(kinds=["tune-tree"], statuses=["finished"], limit=SHOWN)
        except PERSONS_ERRORS:
            tuned = ()
        first, offered = self._services.settings.default_target, self._drafters()
        targets = offered_targets([first, *(str(one.get("target") or "") for one in offered)])
        return export_fields(offered, targets, tuned_choices(tuned, str(typed.get("drafter") or "")))

    def follows(self, field: str, typed: dict[str, Any]) -> bool:
        if field != "drafter":
            return False
        # Another drafter comes with its own target and trees.
        typed |= {"target": self._target_of(str(typed.get("drafter") or "")) or typed.get("target"), "tuned": ""}
        return True

    def missing(self, made: BaseModel) -> dict[str, str]:
        assert isinstance(made, ExportJobConfig)
        if made.engine != "own" and made.target is None:
            return {"target": "Name the target that the drafter was trained for."}
        return {}

    def name_of(self, data: Mapping[str, Any]) -> str:
        return export_name(data)

    def _of_version(self, version_id: str | None) -> str:
        """The newest heads of a version."""
        store = self._services.store
        known = store.list_drafters(version_id) if store is not None and version_id else []
        specs = {str(one["name"]): str(one["spec"]) for one in self._drafters()}
        return next((specs.get(one.name, one.path) for one in known), "")

    def _drafters(self) -> list[Mapping[str, Any]]:
        try:
            return trained(self._services.engine.drafters(self._services.settings.default_target))
        except PERSONS_ERRORS:
            return []

    def _target_of(self, drafter: str) -> str:
        """The target that a drafter says it was made for; empty where it says none."""
        return next((str(one.get("target") or "") for one in self._drafters() if one["spec"] == drafter), "")
