"""What the events of the Audit page do: what was typed in, values of components out. Never raises; errors become one
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

from backend.errors import HeadwayError
from backend.jobs.audit_config import AuditJobConfig
from dashboard.jobs import Jobs
from dashboard.presenters.audit import GROUPS, audit_fields, audit_name
from dashboard.presenters.schema_form import FormField, config_from, job_form, problems_of, typed_from
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

KIND = "audit"
BUILTIN = ("SmolLM2-135M-Instruct (built in)", "smollm2-135m")
QUICK = {"target": "smollm2-135m", "drafter": "builtin-medusa", "minutes": 2.0, "greedy_answers": 6}
SKIP = gr.skip


class AuditHandlers:
    """`clock` numbers what is written into the form, so that the browser tells it from what was typed meanwhile."""

    def __init__(self, services: Services, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._services, self._jobs = services, jobs
        self._fills = itertools.count(int(clock() * 1000))

    # -- events

    def load(self, request: gr.Request) -> tuple[Any, Any]:
        """The page was loaded: form, view. The audit in the address is shown, or the newest one; the form begins with
        the target, drafter, tree and rule that the address names.
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
        """A field was changed: another target comes with its own drafters."""
        typed, other = dict(event.typed), event.field == "target"
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
            return self._form(typed), self._started(data), SKIP()
        except Exception as error:
            return self._form(typed, {"": one_sentence(error)}), SKIP(), SKIP()

    def quick(self) -> dict[str, Any]:
        """The built-in heads, for two minutes."""
        try:
            return self._started(AuditJobConfig.model_validate(QUICK).model_dump(mode="json"))
        except Exception as error:
            return self._shown(None, one_sentence(error))

    # -- parts

    def _started(self, data: dict[str, Any]) -> dict[str, Any]:
        return self._shown(self._jobs.start(KIND, data, name=audit_name(data)))

    def _first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the form begins with: what the address names, else the default target and the first made for it."""
        target = query.get("target") or self._services.settings.default_target
        offered = self._drafters(target)
        typed = {"target": target, "drafter": query.get("drafter") or (offered[0][1] if offered else "")}
        return typed | {name: query[name] for name in ("tree", "rule") if query.get(name)}

    def _drafters(self, target: str) -> list[tuple[str, str]]:
        """(name, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [(str(one["name"]), str(one["spec"])) for one in offered if one["spec"] != "none"]

    def _fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        first = self._services.settings.default_target
        target = str(typed.get("target") or first)
        targets = [BUILTIN, *((name, name) for name in dict.fromkeys((first, target)) if name != BUILTIN[1])]
        return audit_fields(self._drafters(target), targets)

    def _form(
        self, typed: Mapping[str, Any], problems: Mapping[str, str] | None = None, fill: bool = False
    ) -> dict[str, Any]:
        fields = self._fields(typed)
        shown = typed_from(fields, typed)
        return job_form(KIND, "Audit", GROUPS, fields, shown, problems or {}, next(self._fills) if fill else 0)

    def _config(self, typed: Mapping[str, Any]) -> tuple[AuditJobConfig | None, dict[str, str]]:
        fields = self._fields(typed)
        data, problems = config_from(fields, typed)
        try:
            made = AuditJobConfig.model_validate(data)
        except ValidationError as error:
            return None, problems_of(error, fields) | problems
        except HeadwayError as error:  # of several settings together
            return None, problems or {"": one_sentence(error)}
        return (None, problems) if problems else (made, {})

    def _shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        return {"job": job_id, "error": error, "at": next(self._fills)}
