"""A page with one form that starts jobs of one kind, and a view that shows one of them: its layout and its events.

Which fields the form has and what it begins with, each page says itself. Events never raise; errors become one
sentence, beside the field where there is one. The view's value is {job, error, at}; `at` differs each time, so that the
same job twice is news.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gradio as gr
from pydantic import BaseModel, ValidationError

from backend.errors import HeadwayError
from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.frame import LIGHT, on_load
from dashboard.presenters.schema_form import FormField, config_from, job_form, problems_of, typed_from
from dashboard.presenters.targets import offered_targets
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

SKIP = gr.skip


class JobFormHandlers(ABC):
    """`clock` numbers what is written into the form, so that the browser tells it from what was typed meanwhile.

    A page names its `kind` of job, that kind's `config`, what is on the `start` button and the `groups` of fields.
    """

    kind: ClassVar[str]
    config: ClassVar[type[BaseModel]]
    start: ClassVar[str]
    groups: ClassVar[Sequence[tuple[str, str]]]

    def __init__(self, services: Services, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._services, self._jobs = services, jobs
        self._fills = itertools.count(int(clock() * 1000))

    # -- what a page says itself

    @abstractmethod
    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the form begins with at an address that names no job."""

    @abstractmethod
    def fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        """The fields, with what can be chosen beside what is typed."""

    @abstractmethod
    def name_of(self, data: Mapping[str, Any]) -> str:
        """How a list calls the job of this config."""

    def follows(self, field: str, typed: dict[str, Any]) -> bool:
        """Changes in `typed` what follows from a change of `field`; whether the form has to be filled anew."""
        return False

    def missing(self, made: BaseModel) -> dict[str, str]:
        """{path: sentence} for what this page wants beside what the config does."""
        return {}

    # -- events

    def load(self, request: gr.Request) -> tuple[Any, Any]:
        """The page was loaded: form, view. The job in the address is shown, or the newest one."""
        query = request.query_params
        try:
            named = self._jobs.get(query["job"]) if query.get("job") else None
            if named is not None and named.kind == self.kind:
                return self._form(dict(named.config), fill=True), self.shown(named.id)
            newest = self._jobs.list(kinds=[self.kind], limit=1)
            return self._form(self.first(query), fill=True), self.shown(newest[0].id if newest else None)
        except Exception as error:
            return self._form({}, fill=True), self.shown(None, one_sentence(error))

    def edit(self, event: gr.EventData) -> dict[str, Any]:
        """A field was changed."""
        typed = dict(event.typed)
        filled = self.follows(str(event.field), typed)
        _, problems = self._config(typed)
        touched = {path: sentence for path, sentence in problems.items() if path == event.field or typed.get(path)}
        return self._form(typed, touched, fill=filled)

    def act(self, event: gr.EventData) -> tuple[Any, Any, Any]:
        """A button below the form: form, view, text."""
        typed = dict(event.typed)
        made, problems = self._config(typed)
        if made is None:
            return self._form(typed, problems), SKIP(), SKIP()
        data = made.model_dump(mode="json")
        try:
            if event.action != "start":
                make = self._jobs.yaml if event.action == "yaml" else self._jobs.command
                return self._form(typed), SKIP(), {"text": make(self.kind, data)}
            return self._form(typed), self.started(data), SKIP()
        except Exception as error:
            return self._form(typed, {"": one_sentence(error)}), SKIP(), SKIP()

    # -- parts

    def started(self, data: dict[str, Any]) -> dict[str, Any]:
        """The view's value, with a new job of this config. Raises what starting a job raises."""
        return self.shown(self._jobs.start(self.kind, data, name=self.name_of(data)))

    def shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        """The view's value."""
        return {"job": job_id, "error": error, "at": next(self._fills)}

    def _form(
        self, typed: Mapping[str, Any], problems: Mapping[str, str] | None = None, fill: bool = False
    ) -> dict[str, Any]:
        fields = self.fields(typed)
        number = next(self._fills) if fill else 0
        return job_form(self.kind, self.start, self.groups, fields, typed_from(fields, typed), problems or {}, number)

    def _config(self, typed: Mapping[str, Any]) -> tuple[BaseModel | None, dict[str, str]]:
        fields = self.fields(typed)
        data, problems = config_from(fields, typed)
        try:
            made = self.config.model_validate(data)
        except ValidationError as error:
            return None, problems_of(error, fields) | problems
        except HeadwayError as error:  # of several settings together
            return None, problems or {"": one_sentence(error)}
        problems |= self.missing(made)
        return (None, problems) if problems else (made, {})


class DrafterFormHandlers(JobFormHandlers):
    """A form about one drafter of one target: another target comes with its own drafters.

    named: further fields that the address may fill; described: (drafters, targets) -> the fields.
    """

    named: ClassVar[tuple[str, ...]]

    @staticmethod
    @abstractmethod
    def described(drafters: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]) -> tuple[FormField, ...]:
        """The fields, given what is offered as (name, value)."""

    def first(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the address names, else the default target and the first drafter made for it."""
        target = query.get("target") or self._services.settings.default_target
        offered = self._drafters(target)
        typed = {"target": target, "drafter": query.get("drafter") or (offered[0][1] if offered else "")}
        return typed | {name: query[name] for name in self.named if query.get(name)}

    def fields(self, typed: Mapping[str, Any]) -> tuple[FormField, ...]:
        first = self._services.settings.default_target
        target = str(typed.get("target") or first)
        return self.described(self._drafters(target), offered_targets([first, target]))

    def follows(self, field: str, typed: dict[str, Any]) -> bool:
        return field == "target"

    def _drafters(self, target: str) -> list[tuple[str, str]]:
        """(name, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [(str(one["name"]), str(one["spec"])) for one in offered if one["spec"] != "none"]


def job_form_page(handlers: JobFormHandlers) -> Any:
    """Builds the page inside its route: form at the side, and the view called like the kind, which is returned."""
    name = handlers.kind
    with gr.Row(elem_id=f"hw-{name}"):
        with gr.Column(elem_id=f"hw-{name}-side", elem_classes="hw-panel", min_width=260):
            form = view("schema_form", elem_id=f"hw-{name}-form")
            text = view("job_text", elem_id=f"hw-{name}-text")
        shown = view(name, elem_id=f"hw-{name}-shown")
    form.edit(handlers.edit, None, form, trigger_mode="always_last", **LIGHT)
    form.act(handlers.act, None, [form, shown, text], **LIGHT)
    on_load(handlers.load, None, [form, shown])
    return shown
