"""What a sweep is told, as it stands in a form, a file or a command line: which knobs are turned how, what is wanted,
who proposes, and where trials run.

Torch-free: the page draws its form from here. Knows nothing of how a trial is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text, TrainJobConfig
from backend.jobs.options import Leaf, leaves
from backend.sweeps.combine import Facts
from backend.sweeps.knobs import DATA_KNOB, DECODE_KNOBS, Knob, KnobKind, Scalar
from backend.sweeps.objectives import Objective, ObjectiveName, chosen
from backend.sweeps.propose import SamplerName
from backend.sweeps.space import Dimension, as_data, dimensions

MOST_TRIALS = 10_000
SETUP = "setup"  #: key of the item that says under which conditions the trials were measured
TaskCheck = Literal["exact", "regex", "command"]
_KINDS: Mapping[str, KnobKind] = {"flag": "switch", "int": "whole", "float": "number", "str": "text"}


class SweepJobConfig(TargetConfig):
    """Settings to try on the same prompts, and what is wanted of them."""

    prompts: tuple[Text, ...] = Field(min_length=1, description="prompt file: JSONL with turns, ShareGPT or Alpaca")
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    max_new_tokens: int = Field(64, ge=2, le=8192, description="longest answer, in tokens")
    samples: int = Field(1, ge=1, le=16, description="answers to each prompt, from as many seeds")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same trials and same answers")
    space: dict[str, Any] = Field(
        description='knobs as JSON: {"tree": ["chain-2", "2x2"], "epsilon": "0.01 to 0.3 log", "temperature": 0.7}'
    )
    objectives: tuple[ObjectiveName, ...] = Field(
        ("speed",), min_length=1, description="speed, speedup, acceptance_length, drift or train_s"
    )
    max_drift: float | None = Field(
        None, ge=0, le=1, description="settings that change the output more (mean total variation) are not recommended"
    )
    sampler: SamplerName = Field("tpe", description="who proposes: grid, random, tpe or nsga2 (Optuna)")
    trials: int | None = Field(
        None, ge=1, le=MOST_TRIALS, description="how many settings are tried; default: the whole grid, else 40"
    )
    prune_p: float = Field(
        0.01, ge=0, le=0.5, description="a trial is given up when another beats it with p below this; 0: never"
    )
    plain_prompts: int = Field(
        2, ge=0, description="prompts that plain decoding answers too, in turns, in every trial: how speeds compare"
    )
    answers: Text | None = Field(None, description="trials train first: what a distillation wrote")
    train: dict[str, Any] = Field(
        {}, description='the trainings\' other settings as JSON: {"drafter": {"family": "medusa"}, "training": {}}'
    )
    task_file: Text | None = Field(None, description="JSONL of prompts with an `answer`: scores each trial's answers")
    task_check: TaskCheck = Field("exact", description="how: exact match, the answer as a regex, or a command")
    task_command: Text | None = Field(
        None, description="command that is given a JSONL file of answers and prints a number"
    )
    executor: Literal["local", "ray"] = Field("local", description="where trials run: this machine or a Ray cluster")
    workers: int = Field(1, ge=1, le=256, description="trials at a time")
    ray_address: Text | None = Field(None, description="the Ray cluster, say HOST:6379; auto: the one that runs here")
    force: bool = Field(False, description="measure heads of another version all the same")
    name: Name | None = Field(None, description="name of the sweep; default: made of prompts and target")

    @field_validator("space")
    @classmethod
    def _known_knobs(cls, space: dict[str, Any]) -> dict[str, Any]:
        if not space:
            raise HeadwayError("The sweep turns no knob; give at least one in its space, such as tree.")
        found = dimensions(space, knobs())
        return {one.knob.name: as_data(_settled(one)) for one in found}

    @model_validator(mode="after")
    def _check(self) -> Self:
        chosen(self.objectives)
        trained = [one.knob.name for one in self.dimensions if one.knob.stage == "train"]
        if trained and self.answers is None:
            raise HeadwayError(f"{', '.join(trained)} belong to training; give the answers to learn from.")
        if self.answers is not None and "drafter" in self.space:
            raise HeadwayError("The trials train their own drafter, so leave the knob drafter out.")
        if "train_s" in self.objectives and self.answers is None:
            raise HeadwayError("Nothing is trained here; give answers, or leave the objective train_s out.")
        if "speedup" in self.objectives and not self.plain_prompts:
            raise HeadwayError("A speedup needs plain decoding beside it; set plain_prompts to at least 1.")
        self._check_places()
        self._check_task()
        return self

    def _check_places(self) -> None:
        timed = [goal for goal in self.objectives if goal in ("speed", "speedup", "train_s")]
        if self.executor == "local" and self.workers > 1 and timed:
            raise HeadwayError(
                f"{timed[0]} is measured by one trial at a time on a device; use one worker, or the objective "
                "acceptance_length."
            )
        if self.ray_address is not None and self.executor != "ray":
            raise HeadwayError("A Ray address needs the executor ray.")

    def _check_task(self) -> None:
        if (self.task_check == "command") != (self.task_command is not None):
            raise HeadwayError("A command needs task_check command, and task_check command needs one.")
        if self.task_command is not None and self.task_file is None:
            raise HeadwayError("A task command scores the answers to task_file; give that file.")

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return dimensions(self.space, knobs())

    @property
    def goals(self) -> tuple[Objective, ...]:
        return chosen(self.objectives)

    @property
    def trains(self) -> bool:
        return self.answers is not None

    @property
    def num_trials(self) -> int:
        """How many settings are tried at most, references left out."""
        size = 1
        for one in self.dimensions:
            size *= len(one.grid())
        if self.sampler == "grid":
            return min(size, self.trials or MOST_TRIALS)
        return self.trials or 40

    def facts(self, num_prompts: int | None = None) -> Facts:
        """What is known of the combinations before anything is loaded."""
        return Facts(num_prompts=num_prompts, trained=self.trains)

    def training(self, values: Mapping[str, Scalar]) -> dict[str, Any]:
        """The config of a trial's training, as it stands in a file, without its output."""
        data: dict[str, Any] = {name: dict(part) if isinstance(part, Mapping) else part
                                for name, part in self.train.items()}  # fmt: skip
        for name, value in values.items():
            knob = knobs()[name]
            if knob.stage == "train" and knob.path:
                data.setdefault(knob.path[0], {})[knob.path[1]] = value
        same = ("target", "device", "dtype", "trust_remote_code")
        return data | {name: getattr(self, name) for name in same} | {"answers": self.answers}


@lru_cache(maxsize=1)
def knobs() -> Mapping[str, Knob]:
    """All knobs by name: those of decoding, then those of training as its config has them."""
    found = dict(DECODE_KNOBS)
    for leaf in leaves(TrainJobConfig):
        knob = _training_knob(leaf)
        if knob is not None and knob.name not in found:
            found[knob.name] = knob
    found[DATA_KNOB.name] = DATA_KNOB
    return found


def _training_knob(leaf: Leaf) -> Knob | None:
    """A setting of the drafter or the training as a knob; None for what is no single value."""
    if len(leaf.path) != 2 or leaf.shape not in _KINDS:
        return None
    kind: KnobKind = "choice" if leaf.choices else _KINDS[leaf.shape]
    return Knob(leaf.name, leaf.name.replace("_", " "), kind, leaf.help, "train", choices=leaf.choices, path=leaf.path)


def _settled(one: Dimension) -> Any:
    """Folders of drafters as absolute paths: trials run in processes that work elsewhere."""
    if one.knob.name != "drafter":
        return one.tried
    values = tuple(_absolute(str(value)) for value in getattr(one.tried, "values", ()))
    return one.tried.model_copy(update={"values": values})


def _absolute(spec: str) -> str:
    prefix = "draft:" if spec.startswith("draft:") else ""
    path = Path(spec.removeprefix(prefix)).expanduser()
    return prefix + str(path.absolute()) if path.is_dir() else spec
