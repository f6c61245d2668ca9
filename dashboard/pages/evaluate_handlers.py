"""What the events of the Evaluate page do: form values in, values of components out. Never raises; errors become one
sentence.

The value of the page's table is {job, error, at}; `at` differs each time, so that the same job twice is news.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import gradio as gr

from backend.data.prompts import read_prompts
from backend.errors import HeadwayError
from backend.jobs.evaluate_config import EvaluateJobConfig
from dashboard.jobs import Jobs
from dashboard.pages.evaluate_form import EvaluateValues, values_from
from dashboard.pages.evaluate_tables import KIND, Tables
from dashboard.presenters.evaluation import estimate
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

MOST_BYTES = 64 << 20  #: larger files are not counted for an estimate
QUICK_LIMIT, QUICK_TOKENS = 8, 64  #: of the evaluation that the empty page offers


class Handlers:
    def __init__(self, services: Services, jobs: Jobs, tables: Tables) -> None:
        self._services, self._jobs, self._tables = services, jobs, tables
        self._at = itertools.count(1)

    # What is offered

    def drafters(self, target: str) -> list[tuple[str, str]]:
        """(label, spec) of what can draft for the target; none for a target that cannot be."""
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:
            return []
        return [_choice(one, target) for one in offered if one["spec"] != "none"]

    def sets(self) -> list[tuple[str, str]]:
        """(label, path): the project's own prompts and the prompt sets of the store."""
        found = [(f"{label} ({_count(path)})", path) for label, path in self._own() if _count(path)]
        paths = {path for _, path in found}
        try:
            known = self._services.store.list_datasets("prompts") if self._services.store is not None else []
        except PERSONS_ERRORS:
            known = []
        return found + [(f"{one.name} ({one.num_rows:,})", one.path) for one in known if one.path not in paths]

    def first(self) -> EvaluateValues:
        """The form of a new page: the first drafter made for the target, the project's held-out prompts."""
        target = self._services.settings.default_target
        drafters, sets = self.drafters(target), self.sets()
        return EvaluateValues(
            target=target, drafters=[spec for _, spec in drafters[:1]], sets=[path for _, path in sets[:1]]
        )

    # Events

    def load(self, request: gr.Request) -> list[Any]:
        """The page was loaded: all fields, the note, and the evaluation in the address or the newest one."""
        wanted = request.query_params.get("job")
        try:
            newest = self._jobs.list(kinds=[KIND], limit=1)
            job = self._jobs.get(wanted) if wanted else newest[0] if newest else None
        except Exception as error:
            return [*self._filled(self.first()), self._shown(None, one_sentence(error))]
        values = self.first()
        if job is not None and job.kind == KIND:
            offered = [spec for _, spec in self.drafters(job.config["target"])]
            values = values_from(job.config, offered, [path for _, path in self.sets()])
        return [*self._filled(values), self._shown(job.id if job is not None else None)]

    def choices(self, target: str) -> Any:
        """Another target: what can draft for it."""
        offered = self.drafters(target)
        return gr.update(choices=offered, value=[spec for _, spec in offered[:1]])

    def note(self, *values: Any) -> dict[str, Any]:
        try:
            return {"text": self._estimate(EvaluateValues(*values)), "problem": False}
        except Exception as error:
            return {"text": one_sentence(error), "problem": True}

    def start(self, *values: Any) -> dict[str, Any]:
        return self._started(EvaluateValues(*values).to_config)

    def quick(self) -> dict[str, Any]:
        """The built-in heads on the project's own prompts, a few of each."""

        def config() -> dict[str, Any]:
            own = [path for _, path in self._own()]
            if not own:
                raise HeadwayError("This Headway has no prompts of its own; choose a prompt file in the form.")
            return {"target": "smollm2-135m", "drafters": ["builtin-medusa"], "prompts": own, "limit": QUICK_LIMIT,
                    "max_new_tokens": QUICK_TOKENS}  # fmt: skip

        return self._started(config)

    def command(self, *values: Any) -> dict[str, Any]:
        return self._text(self._jobs.command, values)

    def yaml(self, *values: Any) -> dict[str, Any]:
        return self._text(self._jobs.yaml, values)

    # Inside

    def _started(self, config: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            made = config()
            return self._shown(self._jobs.start(KIND, made, name=evaluation_name(made)))
        except Exception as error:
            return self._shown(None, one_sentence(error))

    def _text(self, make: Callable[[str, dict[str, Any]], str], values: tuple[Any, ...]) -> dict[str, Any]:
        try:
            return {"text": make(KIND, EvaluateValues(*values).to_config())}
        except Exception as error:
            return {"text": f"# {one_sentence(error)}"}

    def _shown(self, job_id: str | None, error: str | None = None) -> dict[str, Any]:
        return {"job": job_id, "error": error, "at": next(self._at)}

    def _filled(self, values: EvaluateValues) -> list[Any]:
        """Values for all fields, with fresh choices; then the note."""
        named = dict(zip(EvaluateValues.__dataclass_fields__, values.to_components(), strict=True))
        named["drafters"] = gr.update(choices=self.drafters(values.target), value=values.drafters)
        named["sets"] = gr.update(choices=self.sets(), value=values.sets)
        return [*named.values(), self.note(*values.to_components())]

    def _estimate(self, values: EvaluateValues) -> str:
        config = self._jobs.check(KIND, values.to_config())
        assert isinstance(config, EvaluateJobConfig)
        counts = [_count(path) for path in config.prompts]
        known = [count for count in counts if count is not None]
        limited = [count if config.limit is None else min(count, config.limit) for count in known]
        prompts = sum(limited) if len(known) == len(counts) else None
        return estimate(prompts, config.model_dump(), config.num_configurations, self._tables.pace(config.target))

    def _own(self) -> list[tuple[str, str]]:
        """The project's held-out and demo prompts, where they are there."""
        demo = self._services.settings.demo_prompts
        if demo is None:
            return []
        pairs = (("Held-out prompts", demo.with_name("heldout.jsonl")), ("Demo prompts", demo))
        return [(label, str(path.absolute())) for label, path in pairs if path.is_file()]


def evaluation_name(config: dict[str, Any]) -> str:
    """What the list calls it, where a person gave it no name: its sets and its drafters."""
    if config.get("name"):
        return str(config["name"])
    sets = ", ".join(Path(path).stem for path in config["prompts"])
    return f"{sets}: {', '.join(Path(spec).name for spec in config['drafters'])}"[:80]


def _choice(drafter: dict[str, Any], target: str) -> tuple[str, str]:
    made_for = str(drafter.get("target") or target)
    note = "" if made_for == target else f" (for {made_for})"
    cost = drafter.get("cost")
    return str(drafter["name"]) + note + ("" if cost is None else f" · cost {cost:.2f}"), str(drafter["spec"])


def _count(path: str) -> int | None:
    """How many prompts are in a file; None where that can't be told, or not quickly."""
    try:
        seen = Path(path).expanduser().stat()
    except OSError:
        return None
    return _counted(path, seen.st_mtime_ns, seen.st_size) if seen.st_size <= MOST_BYTES else None


@lru_cache(maxsize=64)
def _counted(path: str, _changed: int, _size: int) -> int | None:
    try:
        return len(read_prompts(Path(path).expanduser()).prompts)
    except HeadwayError:
        return None
