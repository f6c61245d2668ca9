"""What the events of the Sweep page do: what was typed in, values of components out. Never raises; errors become one
sentence.

The value of the page's view is {job, error, at}; `at` differs each time, so that the same job twice is news.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from backend.data.prompts import read_prompts
from backend.errors import HeadwayError
from backend.jobs.sweep_config import SweepJobConfig
from dashboard.jobs import Jobs
from dashboard.pages.sweep_tables import KIND, Sweeps
from dashboard.presenters.sweep_form import (
    Typed,
    config_from,
    dial_typed,
    estimate,
    first_typed,
    form_value,
    typed_from,
)
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

MOST_BYTES = 64 << 20  #: larger files are not counted for an estimate
SKIP = gr.skip


class SweepHandlers:
    """`clock` numbers what is written into the form, so that the browser tells it from what was typed meanwhile."""

    def __init__(self, services: Services, jobs: Jobs, sweeps: Sweeps, clock: Callable[[], float] = time.time) -> None:
        self._services, self._jobs, self._sweeps = services, jobs, sweeps
        self._fills = itertools.count(int(clock() * 1000))

    def load(self, request: gr.Request) -> tuple[Any, Any]:
        """The page was loaded: form, view. The job in the address is shown, or the newest one."""
        wanted = request.query_params.get("job")
        try:
            newest = self._jobs.list(kinds=[KIND], limit=1)
            job = self._jobs.get(wanted) if wanted else newest[0] if newest else None
        except Exception as error:
            return self._filled(self._first()), self._shown(None, one_sentence(error))
        if job is None or job.kind != KIND:
            return self._filled(self._first()), self._shown(job.id if job is not None else None)
        try:
            return self._filled(typed_from(job.config)), self._shown(job.id)
        except Exception:  # a config of another version of Headway
            return self._filled(self._first()), self._shown(job.id)

    def edit(self, event: gr.EventData) -> dict[str, Any]:
        """Something was typed: what it means."""
        return self._form(dict(event.typed))

    def act(self, event: gr.EventData) -> tuple[Any, Any, Any]:
        """A button of the form: form, view, text."""
        typed = dict(event.typed)
        if event.action == "example":
            return self._filled(self._first()), SKIP(), SKIP()
        if event.action == "dial":
            return self._filled(dial_typed(typed if typed.get("prompts") else self._first())), SKIP(), SKIP()
        try:
            config = self._config(typed)
            if event.action == "start":
                return self._form(typed), self._shown(self._start(config)), SKIP()
            data = config.model_dump(mode="json")
            text = self._jobs.yaml(KIND, data) if event.action == "yaml" else self._jobs.command(KIND, data)
            return SKIP(), SKIP(), {"text": text}
        except Exception as error:
            return form_value(typed, one_sentence(error), True), SKIP(), SKIP()

    def quick(self) -> tuple[Any, Any]:
        """The one button of the empty page: form, view."""
        typed = self._first()
        try:
            return self._filled(typed), self._shown(self._start(self._config(typed)))
        except Exception as error:
            return self._filled(typed), self._shown(None, one_sentence(error))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _first(self) -> Typed:
        demo = self._services.settings.demo_prompts
        own = [] if demo is None else [str(demo.with_name("heldout.jsonl").absolute())]
        return first_typed(self._services.settings.default_target, [path for path in own if Path(path).is_file()])

    def _config(self, typed: Mapping[str, Any]) -> SweepJobConfig:
        config = self._jobs.check(KIND, config_from(typed))
        assert isinstance(config, SweepJobConfig)
        return config

    def _start(self, config: SweepJobConfig) -> str:
        return self._jobs.start(KIND, config.model_dump(mode="json"), name=sweep_name(config))

    def _form(self, typed: Typed, fill: int = 0) -> dict[str, Any]:
        try:
            config = self._config(typed)
            note = estimate(config, _prompts(config), self._pace(config.target))
        except Exception as error:
            return form_value(typed, one_sentence(error), True, fill)
        return form_value(typed, note, False, fill)

    def _filled(self, typed: Typed) -> dict[str, Any]:
        return self._form(typed, next(self._fills))

    def _pace(self, target: str) -> float | None:
        try:
            return self._sweeps.pace(target)
        except PERSONS_ERRORS:
            return None

    def _shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        return {"job": job_id, "error": error, "at": next(self._fills)}


def sweep_name(config: SweepJobConfig) -> str:
    """What lists call it, where a person gave it no name: what is turned, and for what."""
    if config.name:
        return config.name
    turned = ", ".join(one.knob.label.lower() for one in config.dimensions if not one.fixed) or "one setting"
    return f"{turned} for {', '.join(goal.label.lower() for goal in config.goals)}"[:80]


def _prompts(config: SweepJobConfig) -> int | None:
    """How many prompts the files hold; None where that can't be told, or not quickly."""
    total = 0
    for name in config.prompts:
        path = Path(name).expanduser()
        try:
            if path.stat().st_size > MOST_BYTES:
                return None
            total += len(read_prompts(path, config.limit).prompts)
        except OSError as error:
            raise HeadwayError(f"The prompts in {path} can't be read: {error.strerror}.") from None
    return total
