"""What the events of the Serve page do: start and watch servers, measure them. Never raises; errors are one sentence.

The value of the page's view is {vllm, job, error, at}: what is installed, and the job that was started just now.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from backend.errors import HeadwayError
from backend.targets.sources import short_name
from dashboard.jobs import Jobs
from dashboard.pages.serve_form import OWN_WORDS, START_OWN, ServeValues
from dashboard.presenters.drafters import drafter_choice
from dashboard.presenters.serving import KINDS, served_by, vllm_words
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

SHOWN = 20


class ServeHandlers:
    def __init__(self, services: Services, jobs: Jobs) -> None:
        self._services, self._jobs = services, jobs
        self._at = itertools.count(1)

    # What is offered

    def first(self) -> ServeValues:
        """The form of a new page."""
        target = self._services.settings.default_target
        specs = [spec for _, spec in self.drafters(target)]
        held = self._prompts()
        return ServeValues(target, specs[0] if specs else "builtin-medusa", prompts=str(held) if held else "")

    def drafters(self, target: str) -> list[tuple[str, str]]:
        """(label, spec) of what can draft for the target, none among them."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [drafter_choice(one, target) for one in offered]

    def servers(self) -> list[tuple[str, str]]:
        """(label, URL or own): what can be measured."""
        own = (OWN_WORDS, START_OWN)
        try:
            jobs = self._jobs.list(kinds=["vllm"], statuses=["running"], limit=SHOWN)
            items = [self._jobs.items(job.id) for job in jobs]
        except PERSONS_ERRORS:
            return [own]
        return [own, *(one for one in map(served_by, items) if one is not None)]

    # Events

    def load(self, request: gr.Request) -> list[Any]:
        """The page was loaded: all fields, and the job in the address or the newest one."""
        values = self.first()
        named = {name: request.query_params[name] for name in ("target", "drafter") if request.query_params.get(name)}
        values = replace(values, **named)
        try:
            wanted = request.query_params.get("job")
            newest = self._jobs.list(kinds=KINDS, limit=1)
            job = wanted or (newest[0].id if newest else None)
            return [*self._filled(values), self._shown(job)]
        except Exception as error:
            return [*self._filled(values), self._shown(None, one_sentence(error))]

    def choices(self, target: str) -> Any:
        """Another target: what can draft for it."""
        offered = self.drafters(target)
        return gr.update(choices=offered, value=offered[0][1] if offered else None)

    def offered_servers(self, chosen: str) -> Any:
        """The servers that run now, when the list is opened."""
        return gr.update(choices=self.servers(), value=chosen)

    def serve(self, *values: Any) -> dict[str, Any]:
        return self._started("vllm", lambda: ServeValues(*values).serving())

    def watch(self, *values: Any) -> dict[str, Any]:
        return self._started("vllm", lambda: ServeValues(*values).watching())

    def measure(self, *values: Any) -> dict[str, Any]:
        return self._started("load-test", lambda: ServeValues(*values).loading())

    def compare(self, *values: Any) -> dict[str, Any]:
        return self._started("compare-serving", lambda: ServeValues(*values).comparing())

    # Inside

    def _started(self, kind: str, config: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            made = config()
            self._check_possible(made)
            return self._shown(self._jobs.start(kind, made, name=_name(made)))
        except HeadwayError as error:
            return self._shown(None, str(error))
        except Exception as error:
            return self._shown(None, one_sentence(error))

    def _check_possible(self, config: dict[str, Any]) -> None:
        """What a job would refuse minutes later is refused here. Raises HeadwayError."""
        if config.get("url") is not None or self._services.places is None:
            return
        from backend.jobs.vllm_config import SAMPLING_ON_CPU
        from backend.serving.environment import find_vllm

        vllm = find_vllm(self._services.places)
        if vllm.build == "cpu" and config.get("drafter") != "none" and config.get("temperature"):
            raise HeadwayError(f"{SAMPLING_ON_CPU}.")

    def _shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        return {"vllm": self._vllm(), "job": job_id, "error": error, "at": next(self._at)}

    def _vllm(self) -> dict[str, Any]:
        """{ready, words}: whether vLLM is installed here, and what to do where it is not."""
        from backend.serving.environment import find_vllm

        if self._services.places is None:
            return {"ready": False, "words": "This dashboard was started without a home folder."}
        try:
            return {"ready": True, "words": vllm_words(find_vllm(self._services.places))}
        except HeadwayError as error:
            return {"ready": False, "words": str(error)}

    def _filled(self, values: ServeValues) -> list[Any]:
        named = dict(zip(ServeValues.__dataclass_fields__, values.to_components(), strict=True))
        named["drafter"] = gr.update(choices=self.drafters(values.target), value=values.drafter)
        named["server"] = gr.update(choices=self.servers(), value=values.server)
        return list(named.values())

    def _prompts(self) -> Path | None:
        """The project's own held-out prompts lie beside its demo prompts."""
        demo = self._services.settings.demo_prompts
        held = None if demo is None else demo.with_name("heldout.jsonl")
        return held if held is not None and held.is_file() else None


def _name(config: dict[str, Any]) -> str:
    """What the list calls it."""
    if config.get("url"):
        return str(config["url"]).removeprefix("http://")[:80]
    drafter = Path(str(config["drafter"])).name
    target = short_name(str(config["target"]))
    return target if drafter == "none" else f"{target} with {drafter}"
