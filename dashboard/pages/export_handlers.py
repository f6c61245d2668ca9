"""What the events of the Export page do: what was typed in, values of components out. Never raises; errors become one
sentence, beside the field where there is one.

The value of the page's view is {job, error, at}; `at` differs each time, so that the same job twice is news.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr
from pydantic import ValidationError

from backend.jobs.export_config import ExportJobConfig
from dashboard.jobs import Jobs
from dashboard.presenters.export import export_fields, export_name, form_value, trained, tuned_choices
from dashboard.presenters.schema_form import FormField, config_from, problems_of, typed_from
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

KIND = "export"
SHOWN = 50
BUILTIN = ("SmolLM2-135M-Instruct (built in)", "smollm2-135m")
SKIP = gr.skip


class ExportHandlers:
    """`clock` numbers what is written into the form, so that the browser tells it from what was typed meanwhile."""

    def __init__(self, services: Services, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._services, self._jobs = services, jobs
        self._fills = itertools.count(int(clock() * 1000))

    # -- events

    def load(self, request: gr.Request) -> tuple[Any, Any]:
        """The page was loaded: form, view. The export in the address is shown, or the newest one; the form begins with
        the drafter, the version's heads or the tuned tree that the address names.
        """
        query = request.query_params
        try:
            named = self._jobs.get(query["job"]) if query.get("job") else None
            if named is not None and named.kind == KIND:
                return self._form(dict(named.config), fill=True), self._shown(named.id)
            newest = self._jobs.list(kinds=[KIND], limit=1)
            return self._form(self._first(query), fill=True), self._shown(newest[0].id if newest else None)
        except Exception as error:
            return self._form({}, fill=True), self._shown(None, one_sentence(error))

    def edit(self, event: gr.EventData) -> dict[str, Any]:
        """A field was changed: another drafter comes with its own target and trees."""
        typed, other = dict(event.typed), event.field == "drafter"
        if other:
            typed |= {"target": self._target_of(str(typed.get("drafter") or "")) or typed.get("target"), "tuned": ""}
        _, problems = self._config(typed)
        touched = {path: sentence for path, sentence in problems.items() if path == event.field or typed.get(path)}
        return self._form(typed, touched, fill=other)

    def act(self, event: gr.EventData) -> tuple[Any, Any, Any]:
        """A button below the form: form, view, text."""
        typed = dict(event.typed)
        config, problems = self._config(typed)
        if config is None:
            return self._form(typed, problems), SKIP(), SKIP()
        data = config.model_dump(mode="json")
        try:
            if event.action != "start":
                make = self._jobs.yaml if event.action == "yaml" else self._jobs.command
                return self._form(typed), SKIP(), {"text": make(KIND, data)}
            return self._form(typed), self._shown(self._jobs.start(KIND, data, name=export_name(data))), SKIP()
        except Exception as error:
            return self._form(typed, {"": one_sentence(error)}), SKIP(), SKIP()

    # -- parts

    def _first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the form begins with: vLLM, and the drafter that the address means, else the first one."""
        typed: dict[str, Any] = {"engine": "vllm"}
        offered = self._drafters()
        specs = [str(one["spec"]) for one in offered]
        typed["drafter"] = query.get("drafter") or self._of_version(query.get("version")) or (specs[0] if specs else "")
        if query.get("tuned"):
            job = self._jobs.get(query["tuned"])
            typed |= {"tuned": job.id, "drafter": (job.result or {}).get("drafter") or typed["drafter"]}
        target = self._target_of(str(typed["drafter"])) or self._services.settings.default_target
        return typed | {"target": query.get("target") or target}

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

    def _fields(self, drafter: str) -> tuple[FormField, ...]:
        try:
            tuned = self._jobs.list(kinds=["tune-tree"], statuses=["finished"], limit=SHOWN)
        except PERSONS_ERRORS:
            tuned = ()
        first, offered = self._services.settings.default_target, self._drafters()
        named = dict.fromkeys([first, *(str(one.get("target") or "") for one in offered)])
        targets = [BUILTIN, *((name, name) for name in named if name and name != BUILTIN[1])]
        return export_fields(offered, targets, tuned_choices(tuned, drafter))

    def _form(
        self, typed: Mapping[str, Any], problems: Mapping[str, str] | None = None, fill: bool = False
    ) -> dict[str, Any]:
        fields = self._fields(str(typed.get("drafter") or ""))
        return form_value(fields, typed_from(fields, typed), problems or {}, next(self._fills) if fill else 0)

    def _config(self, typed: Mapping[str, Any]) -> tuple[ExportJobConfig | None, dict[str, str]]:
        fields = self._fields(str(typed.get("drafter") or ""))
        data, problems = config_from(fields, typed)
        try:
            made = ExportJobConfig.model_validate(data)
        except ValidationError as error:
            return None, problems_of(error, fields) | problems
        if made.engine != "own" and made.target is None:
            problems["target"] = "Name the target that the drafter was trained for."
        return (None, problems) if problems else (made, {})

    def _shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        return {"job": job_id, "error": error, "at": next(self._fills)}
