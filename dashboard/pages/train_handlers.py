"""What the events of the Train page do: what was typed in, values of components out. Never raises; errors become one
sentence, beside the field where there is one.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gradio as gr
import psutil
from pydantic import ValidationError

from backend.drafters.families import DEFAULT_FAMILY
from backend.errors import HeadwayError
from backend.jobs.configs import TrainJobConfig
from backend.jobs.fork import start_of
from backend.training.known_targets import known_target
from backend.training.plan_facts import answer_facts, machine_speed, target_facts, with_captures
from backend.training.plan_given import AnswerFacts
from backend.training.planner import decides, plan
from backend.training.vocab_facts import vocabulary_facts
from dashboard.jobs import Jobs
from dashboard.presenters.schema_form import FormField, config_from, problems_of, typed_from
from dashboard.presenters.targets import offered_targets
from dashboard.presenters.train import (
    FAMILY,
    FIRST,
    PRESET,
    answer_choices,
    coverage_figure,
    fitting_probe,
    fork_config,
    form_value,
    job_name,
    plan_view,
    preset_values,
    train_fields,
)
from dashboard.runs import PERSONS_ERRORS, one_sentence
from dashboard.services import Services

BUILTIN_ANSWERS = Path(__file__).parents[2] / "prompts" / "answers-smollm2-135m.npz"
NUM_PROBES = 50
SKIP = gr.skip


class TrainHandlers:
    """`clock` numbers what is written into the form, so that the browser tells it from what was typed meanwhile."""

    def __init__(self, services: Services, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._services = services
        self._jobs = jobs
        self._fills = itertools.count(int(clock() * 1000))

    # -- events; what they give is said at each -----------------------------------------------------------------------

    def load(self, request: gr.Request) -> tuple[Any, Any, Any, Any]:
        """The page was loaded: form, link, plan, empty state. The job in the address is shown; its settings fill the
        form, or what else the address names does.
        """
        job_id = request.query_params.get("job")
        typed: dict[str, Any] = {"target": self._services.settings.default_target}
        typed |= {name: request.query_params[name] for name in ("target", "answers") if name in request.query_params}
        problems: dict[str, str] = {}
        if job_id:
            try:
                typed = self._typed(self._jobs.get(job_id).config)
            except PERSONS_ERRORS as error:
                job_id, problems = None, {"": one_sentence(error)}
        form = self._form(typed, problems, fill=True)
        return form, self._link(job_id), self._plan(form["typed"]), self._first()

    def edit(self, event: gr.EventData) -> tuple[Any, Any]:
        """A field was changed: form, plan."""
        typed = self._switched(dict(event.typed), str(event.field))
        form = self._form(typed, {}, fill=event.field in (FAMILY, PRESET))
        config, problems = self._config(typed)
        touched = {path: sentence for path, sentence in problems.items() if path == event.field or typed.get(path)}
        return form | {"problems": touched}, self._planned(config) if config else SKIP()

    def act(self, event: gr.EventData) -> tuple[Any, Any, Any]:
        """A button below the form: form, link, text."""
        typed = dict(event.typed)
        config, problems = self._config(typed)
        if config is None:
            return self._form(typed, problems), SKIP(), SKIP()
        data = config.model_dump(mode="json")
        try:
            if event.action != "start":
                return SKIP(), SKIP(), {"text": self._text(event.action, data)}
            return self._form(typed, {}), self._link(self._start(data)), SKIP()
        except Exception as error:
            return self._form(typed, {"": one_sentence(error)}), SKIP(), SKIP()

    def begin(self) -> tuple[Any, Any, Any]:
        """The one button of the empty page: form, link, plan."""
        typed = self._typed(self._first_config())
        try:
            job_id = self._start(self._first_config())
        except Exception as error:
            return self._form(typed, {"": one_sentence(error)}, fill=True), SKIP(), SKIP()
        return self._form(typed, {}, fill=True), self._link(job_id), self._plan(typed)

    def fork(self, event: gr.EventData) -> tuple[Any, Any, Any]:
        """A new training from a job's weights: form, link (none shown), plan."""
        try:
            job = self._jobs.get(str(event.job))
        except Exception as error:
            return self._form({}, {"": one_sentence(error)}), SKIP(), SKIP()
        step = event.step if isinstance(event.step, int) else None
        typed = self._typed(fork_config(job.config, job.id, step))
        return self._form(typed, {}, fill=True), self._link(None), self._plan(typed)

    def text(self, event: gr.EventData) -> dict[str, Any]:
        """A job as a command or a file."""
        try:
            return {"text": self._text(str(event.form), self._jobs.get(str(event.job)).config)}
        except Exception as error:
            return {"text": f"# {one_sentence(error)}"}

    def measure(self, event: gr.EventData) -> tuple[Any, Any]:
        """Start a measuring job for what is typed: form, plan."""
        typed = dict(event.typed)
        config, problems = self._config(typed)
        if config is None:
            return self._form(typed, problems), self._trouble("Correct the settings first; then it can be measured.")
        view = self._planned(config)
        try:
            job_id = self._jobs.start("plan", config.model_dump(mode="json"), name=job_name(config.model_dump()))
        except Exception as error:
            return SKIP(), view | {"problem": one_sentence(error)}
        return SKIP(), view | {"measuring": job_id}

    def measured(self, event: gr.EventData) -> Any:
        """The measuring job is done: the plan again."""
        return self._plan(dict(event.typed))

    def _switched(self, typed: dict[str, Any], field: str) -> dict[str, Any]:
        """What is typed, after another family or preset was chosen: another family comes with its own settings, a
        preset with its values.
        """
        if field == FAMILY:
            return {path: value for path, value in typed.items() if not path.startswith("drafter.")} | {
                FAMILY: typed[FAMILY], PRESET: "",
            }  # fmt: skip
        if field == PRESET and typed.get(PRESET):
            family = str(typed.get(FAMILY) or DEFAULT_FAMILY)
            return typed | preset_values(self.fields(family), family, str(typed[PRESET]))
        return typed

    # -- parts ------------------------------------------------------------------------------------------------------

    def fields(self, family: str | None) -> tuple[FormField, ...]:
        try:
            datasets = self._services.store.list_datasets("answers") if self._services.store else []
        except PERSONS_ERRORS:
            datasets = []
        first = self._services.settings.default_target
        return train_fields(family, offered_targets([first]), answer_choices(datasets, BUILTIN_ANSWERS))

    def _form(self, typed: Mapping[str, Any], problems: Mapping[str, str], fill: bool = False) -> dict[str, Any]:
        fields = self.fields(typed.get(FAMILY) or None)
        whole = typed_from(fields, {})
        if not whole.get("answers"):
            choices = next(field.choices for field in fields if field.path == "answers")
            whole["answers"] = choices[0][1] if choices else ""
        whole |= {path: value for path, value in typed.items() if path in whole}
        return form_value(fields, whole, problems, next(self._fills) if fill else 0)

    def _typed(self, config: Mapping[str, Any]) -> dict[str, Any]:
        family = (config.get("drafter") or {}).get("family")
        return typed_from(self.fields(family), config)

    def _config(self, typed: Mapping[str, Any]) -> tuple[TrainJobConfig | None, dict[str, str]]:
        fields = self.fields(typed.get(FAMILY) or None)
        data, problems = config_from(fields, typed)
        try:
            made = TrainJobConfig.model_validate(data)
        except ValidationError as error:
            return None, problems_of(error, fields) | problems
        return (None, problems) if problems else (made, {})

    def _start(self, data: Mapping[str, Any]) -> str:
        parent = data.get("start_from")
        try:
            parent_id = self._jobs.get(start_of(parent)[0]).id if parent else None
        except PERSONS_ERRORS:
            parent_id = None  # a folder, or a job of another store
        return self._jobs.start("train", data, name=job_name(data), parent_id=parent_id)

    def _text(self, form: str, data: Mapping[str, Any]) -> str:
        return self._jobs.yaml("train", data) if form == "yaml" else self._jobs.command("train", data)

    def _link(self, job_id: str | None) -> dict[str, Any]:
        return {"job": job_id, "at": next(self._fills)}

    def _plan(self, typed: Mapping[str, Any]) -> Any:
        config, _ = self._config(typed)
        return self._planned(config) if config else self._trouble("Choose answers to learn from, and the plan follows.")

    def _planned(self, config: TrainJobConfig) -> dict[str, Any]:
        try:
            target = target_facts(config.target)
            answers = answer_facts(Path(config.answers).expanduser(), config.held_out, target.max_context)
            answers = self._with_captures(answers, config, target.num_layers)
            probes = [job.result for job in self._jobs.list(kinds=("plan",), statuses=("finished",), limit=NUM_PROBES)]
            probe = fitting_probe(probes, config.target, decides(config))
            planned = plan(config, target, answers, probe, machine_speed())
        except (HeadwayError, ValueError) as error:
            return self._trouble(str(error))
        except Exception as error:
            return self._trouble(one_sentence(error))
        coverage = self._coverage(config, target.vocab_size)
        return plan_view(planned, self._free_disk(), int(psutil.virtual_memory().available), coverage)

    def _with_captures(self, answers: AnswerFacts, config: TrainJobConfig, num_layers: int) -> AnswerFacts:
        """The answers, and whether what is read of them was captured before."""
        places = self._services.places
        if places is None:
            return answers
        known = known_target(places.cache, config.target, config.device, config.dtype)
        parent = Path(config.work).expanduser() if config.work else places.features
        return with_captures(answers, config, num_layers, parent, known)

    def _coverage(self, config: TrainJobConfig, vocab_size: int) -> dict[str, str] | None:
        size, depth = config.drafter.draft_vocab, config.drafter.depth
        if not size:
            return None  # everything can be drafted
        try:
            found = vocabulary_facts(Path(config.answers).expanduser(), config.held_out, vocab_size, size, depth)
        except (HeadwayError, ValueError):
            return None  # the plan itself says what is wrong with the answers
        return coverage_figure(*found) if found else None

    def _trouble(self, sentence: str) -> dict[str, Any]:
        return {"badge": "", "figures": [], "phases": [], "notes": [], "problem": sentence, "measuring": None}

    def _free_disk(self) -> int | None:
        places = self._services.places
        try:
            return shutil.disk_usage(places.home).free if places else None
        except OSError:
            return None

    def _first_config(self) -> dict[str, Any]:
        return {"target": "smollm2-135m", "answers": str(BUILTIN_ANSWERS), **FIRST}

    def _first(self) -> dict[str, Any] | None:
        if not BUILTIN_ANSWERS.is_file():
            return None
        view = self._planned(TrainJobConfig.model_validate(self._first_config()))
        took = view["figures"][0]["value"] if view["figures"] else None
        heads = FIRST["drafter"]["num_heads"]
        return {
            "sentence": (
                f"{heads} small heads learn to guess ahead for SmolLM2-135M, from the answers that come with Headway. "
                "You can watch the curves, close the page, and come back."
            ),
            "button": f"Train small heads · about {took}" if took else "Train small heads",
            "note": "An estimate for this machine." if view["badge"] == "estimate" else "As measured on this machine.",
        }
