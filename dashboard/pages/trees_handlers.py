"""What the events of the Trees page do. Never raises; errors become one sentence.

The value of the page's view is {plotly, jobs, error, at}: the jobs that were started just now; `at` differs each time.
It has `text` too where a command or a file was asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from backend.errors import HeadwayError
from dashboard.components.plotly_js import plotly_path
from dashboard.jobs import Jobs
from dashboard.pages.trees_form import TreesValues
from dashboard.presenters.drafters import drafter_choice
from dashboard.presenters.trees import job_name
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

QUICK_LIMIT, QUICK_TOKENS, QUICK_SECONDS = 40, 64, 120  #: of what the empty page starts
MEASURED_PROMPTS = 24
KEPT = ("calibration", "cost", "batch", "temperature", "category")  #: what the page says of a tree to keep


def measuring(wanted: dict[str, Any], prompts: str) -> dict[str, Any]:
    """The config of an evaluation of one tree: as many prompts as give an interval soon."""
    batch = int(wanted["batch"])
    return {
        "target": wanted["model"], "drafters": [wanted["drafter"]], "trees": [str(wanted["tree"])],
        "prompts": [prompts], "limit": max(MEASURED_PROMPTS, 2 * batch), "batches": [batch],
        "temperatures": [float(wanted["temperature"])], "max_new_tokens": QUICK_TOKENS,
    }  # fmt: skip


def keeping(wanted: dict[str, Any]) -> dict[str, Any]:
    """The config of a tuning job."""
    return {
        "calibration": str(wanted["calibration"]), "cost": str(wanted["cost"]) if wanted["cost"] else None,
        "batch": int(wanted["batch"]), "temperature": float(wanted["temperature"]),
        "category": str(wanted["category"]) if wanted["category"] else None,
    }  # fmt: skip


class TreesHandlers:
    def __init__(self, services: Services, jobs: Jobs) -> None:
        self._services, self._jobs = services, jobs
        self._at = itertools.count(1)

    def first(self) -> TreesValues:
        """The form of a new page."""
        target = self._services.settings.default_target
        specs = [spec for _, spec in self.drafters(target)]
        held = self._held_out()
        return TreesValues(target, specs[0] if specs else "builtin-medusa", str(held) if held else "")

    def drafters(self, target: str) -> list[tuple[str, str]]:
        """(label, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [drafter_choice(one, target) for one in offered if one["spec"] != "none"]

    def load(self, request: gr.Request) -> list[Any]:
        """The page was loaded: all fields, and nothing that was started."""
        named = {name: request.query_params[name] for name in ("target", "drafter") if request.query_params.get(name)}
        values = replace(self.first(), **named)
        filled = values.to_components()
        filled[1] = self.choices(values.target) | {"value": values.drafter}
        return [*filled, self._shown([])]

    def choices(self, target: str) -> Any:
        """Another target: what can draft for it."""
        offered = self.drafters(target)
        return gr.update(choices=offered, value=offered[0][1] if offered else None)

    def calibrate(self, *values: Any) -> dict[str, Any]:
        return self._started(lambda: [("calibrate", TreesValues(*values).calibration())])

    def cost(self, *values: Any) -> dict[str, Any]:
        return self._started(lambda: [("cost", TreesValues(*values).timing())])

    def text(self, kind: str, words: str, *values: Any) -> dict[str, Any]:
        """A job of the form as a command or a file."""
        form = TreesValues(*values)
        return self._text(kind, words, form.calibration if kind == "calibrate" else form.timing)

    def keep(self, event: gr.EventData) -> dict[str, Any]:
        """A tuning job, or the same as text: it searches once more and keeps the tree, for an export and for the front
        page.
        """
        wanted = {name: getattr(event, name) for name in KEPT}
        if event.form != "start":
            return self._shown([]) | self._text("tune-tree", str(event.form), lambda: keeping(wanted))
        return self._started(lambda: [("tune-tree", keeping(wanted))])

    def begin(self, *values: Any) -> dict[str, Any]:
        """Both, small: what the empty page offers."""

        def configs() -> list[tuple[str, dict[str, Any]]]:
            form = replace(TreesValues(*values), limit=QUICK_LIMIT, max_new_tokens=QUICK_TOKENS, seconds=QUICK_SECONDS)
            return [("calibrate", form.calibration()), ("cost", form.timing())]

        return self._started(configs)

    def measure(self, event: gr.EventData) -> dict[str, Any]:
        """An evaluation of one tree beside plain decoding; what it finds is shown beside what was predicted."""

        def configs() -> list[tuple[str, dict[str, Any]]]:
            held = self._held_out()
            if held is None:
                raise HeadwayError("This Headway has no held-out prompts of its own; measure it on the Evaluate page.")
            # An event's own `target` is the component it came from.
            wanted = {name: getattr(event, name) for name in ("model", "drafter", "tree", "batch", "temperature")}
            return [("evaluate", measuring(wanted, str(held)))]

        return self._started(configs)

    def _text(self, kind: str, words: str, config: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        make = self._jobs.yaml if words == "yaml" else self._jobs.command
        try:
            return {"text": make(kind, config())}
        except Exception as error:
            return {"text": f"# {one_sentence(error)}"}

    def _started(self, configs: Callable[[], list[tuple[str, dict[str, Any]]]]) -> dict[str, Any]:
        try:
            made = configs()
            for kind, config in made:  # none is started where one of them is wrong
                self._jobs.check(kind, config)
            return self._shown([self._jobs.start(kind, config, name=self._name(kind, config)) for kind, config in made])
        except HeadwayError as error:
            return self._shown([], str(error))
        except Exception as error:
            return self._shown([], one_sentence(error))

    def _shown(self, jobs: list[str], error: str | None = None) -> dict[str, Any]:
        return {"plotly": plotly_path(), "jobs": jobs, "error": error, "at": next(self._at)}

    def _held_out(self) -> Path | None:
        """The project's own held-out prompts lie beside its demo prompts."""
        demo = self._services.settings.demo_prompts
        held = None if demo is None else demo.with_name("heldout.jsonl")
        return held if held is not None and held.is_file() else None

    def _name(self, kind: str, config: dict[str, Any]) -> str:
        if kind == "tune-tree":
            at_once = "" if config["batch"] == 1 else f", {config['batch']} at once"
            return job_name(dict(self._jobs.get(config["calibration"]).config)) + at_once
        return job_name(config) if kind != "evaluate" else f"a tree of {config['drafters'][0]}"
