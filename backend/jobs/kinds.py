"""Which kinds of job there are. A kind is a config, a function that does the work, and a few words about it.

Torch-free: configs are imported when they are asked for, the work when a worker runs it. The dashboard, the worker and
the command line all start from here.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from backend.targets.sources import absolute_target, short_name, split_target

if TYPE_CHECKING:
    from backend.jobs.context import JobContext


#: settings that are files or folders
PATHS = ("prompts", "answers", "out", "version_out", "pack", "work", "task_file", "hits", "requests")
#: settings that are names or paths
MAYBE_PATHS = ("target", "start_from", "drafters", "drafter", "serving_target", "serving_drafter", "shared")
PAIRS = ("also",)  #: settings that are TARGET=FILE
FILES_OR_JOBS = ("calibration", "cost", "tuned", "eval")  #: settings that are a file, a job's id or a command


COMMAND_TAG = "command line"  #: of jobs that a command made for itself
DOING = {
    "distill": "distilling",
    "train": "training",
    "joint": "training",
    "finetune": "fine-tuning",
    "evaluate": "evaluating",
    "plan": "measuring",
    "calibrate": "calibrating",
    "audit": "auditing",
    "doctor": "diagnosing",
    "cost": "timing",
    "sweep": "sweeping",
    "vllm": "serving",
    "load-test": "loading a server",
    "compare-serving": "comparing",
    "tune-tree": "tuning",
    "export": "exporting",
    "release": "releasing",
    "adapters": "comparing adapters",
    "watch": "watching",
}


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Args:
        name: as it stands in the store and on the command line.
        title: for people.
        config_at, run_at: `module:name` of the config class and of `run(config, context) -> dict`.
        lower: which settings to lower when memory runs out.
        output: the config's field that names the file or folder it writes, "" when there is none.
        beside: the config's field that names a server which runs anyway; with it the job needs no device of its own.
        computes: whether it works on a device at all.
        named: the config's fields that are NAME=PATH, one or several.
    """

    name: str
    title: str
    config_at: str
    run_at: str
    lower: tuple[str, ...]
    output: str = "out"
    beside: str = ""
    computes: bool = True
    named: tuple[str, ...] = ()

    def needs_device(self, config: Mapping[str, Any]) -> bool:
        """Whether a job with this config works on the device itself."""
        return self.computes and not (self.beside and config.get(self.beside))

    @property
    def doing(self) -> str:
        """What it is busy with, for a sentence: "training"."""
        return DOING.get(self.name, self.name)

    @property
    def config(self) -> type[BaseModel]:
        """The config class; torch-free."""
        found: type[BaseModel] = _found(self.config_at)
        return found

    @property
    def run(self) -> Callable[[Any, JobContext], dict[str, Any]]:
        """The work; imports torch."""
        found: Callable[[Any, JobContext], dict[str, Any]] = _found(self.run_at)
        return found

    def summary(self, config: BaseModel) -> str:
        """A few words for a list: the job's name unless it is given one."""
        data = config.model_dump()
        source = data.get("prompts") or data.get("answers") or ""
        source = source if isinstance(source, str) else ", ".join(map(str, source))
        drafter = data.get("drafter")
        other = Path(drafter).name if isinstance(drafter, str) else ""
        source = source or str(data.get("calibration") or "")
        subject = data.get("name") or Path(data.get(self.output) or "").stem or Path(source).stem or other
        target = short_name(str(data.get("target") or ""))
        return f"{self.title} {subject} with {target}" if target else f"{self.title} {subject}".strip()

    def settled(self, config: BaseModel) -> BaseModel:
        """The config with absolute paths: a job may be taken up by a process that works in another folder."""
        changes: dict[str, Any] = {}
        for name in self.named:
            changes[name] = tuple(map(_named_absolute, getattr(config, name)))
        for name in PAIRS:
            if pairs := getattr(config, name, ()):
                changes[name] = tuple(map(_pair_absolute, pairs))
        for name in PATHS:
            if name in self.named:
                continue
            value = getattr(config, name, None)
            if isinstance(value, str):
                changes[name] = _absolute(value)
            elif isinstance(value, tuple):
                changes[name] = tuple(map(_absolute, value))
        for name in MAYBE_PATHS:
            value = getattr(config, name, None)
            if isinstance(value, str):
                changes[name] = _maybe_absolute(value)
            elif isinstance(value, tuple):
                changes[name] = tuple(map(_maybe_absolute, value))
        for name in FILES_OR_JOBS:
            value = getattr(config, name, None)
            if isinstance(value, str) and Path(value).expanduser().is_file():
                changes[name] = _absolute(value)
        return config.model_copy(update=changes)

    def exclusive(self, config: BaseModel) -> str | None:
        """What no other open job may have: the place the job writes to, or all of its config where it writes nowhere.

        None when the place is not known yet.
        """
        if not self.output:  # it writes nowhere else, so only the very same job would be one too many
            return f"{self.name}:{hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:16]}"
        place = getattr(config, self.output, None)
        return f"file:{Path(place).expanduser().absolute()}" if place else None


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _named_absolute(text: str) -> str:
    """NAME=PATH with an absolute path, if one is there: it may be a hub id."""
    name, equals, path = text.partition("=")
    return name + equals + (_absolute(path) if path and Path(path).expanduser().exists() else path)


def _pair_absolute(text: str) -> str:
    target, equals, path = text.rpartition("=")
    return _maybe_absolute(target) + equals + _absolute(path) if equals else text


def _maybe_absolute(text: str) -> str:
    prefix = "draft:" if text.startswith("draft:") else ""
    path = text.removeprefix(prefix)
    if split_target(path)[1]:  # a target with an adapter or a quantisation behind it
        return prefix + absolute_target(path)
    found = Path(path).expanduser()
    place, at, step = path.rpartition("@")
    if at and step.isdigit() and not found.exists():  # weights of a step of a training in that folder
        return f"{_maybe_absolute(prefix + place)}@{step}"
    is_path = ("/" in path or path[:1] in (".", "~")) and found.exists()
    return prefix + _absolute(path) if is_path or (found / "headway.json").is_file() else text


def _found(at: str) -> Any:
    module, _, name = at.partition(":")
    return getattr(importlib.import_module(module), name)


JOB_KINDS: Final[Mapping[str, JobKind]] = {
    kind.name: kind
    for kind in (
        JobKind(
            "distill",
            "Distil",
            "backend.jobs.configs:DistillJobConfig",
            "backend.jobs.distill_job:run",
            ("batch", "max_new_tokens"),
            beside="endpoint",
        ),
        JobKind(
            "train",
            "Train",
            "backend.jobs.configs:TrainJobConfig",
            "backend.jobs.train_job:run",
            ("batch_tokens", "draft_vocab", "num_heads", "test_time_steps"),
        ),
        JobKind(
            "joint",
            "Train jointly",
            "backend.jobs.joint_config:JointJobConfig",
            "backend.jobs.joint_job:run",
            ("batch_tokens", "draft_vocab", "num_heads", "test_time_steps"),
        ),
        JobKind(
            "finetune",
            "Fine-tune",
            "backend.jobs.finetune_config:FinetuneJobConfig",
            "backend.jobs.finetune_job:run",
            ("batch_tokens",),
        ),
        JobKind(
            "evaluate",
            "Evaluate",
            "backend.jobs.evaluate_config:EvaluateJobConfig",
            "backend.jobs.evaluate_job:run",
            ("batches", "max_new_tokens"),
            output="",
        ),
        JobKind(
            "plan",
            "Measure",
            "backend.jobs.plan_config:PlanJobConfig",
            "backend.jobs.plan_job:run",
            ("batch_tokens", "draft_vocab", "num_heads", "test_time_steps"),
            output="",
        ),
        JobKind(
            "calibrate",
            "Calibrate",
            "backend.jobs.calibrate_config:CalibrateJobConfig",
            "backend.jobs.calibrate_job:run",
            ("batch", "nodes", "max_new_tokens"),
            output="",
        ),
        JobKind(
            "cost",
            "Cost",
            "backend.jobs.cost_config:CostJobConfig",
            "backend.jobs.cost_job:run",
            ("batches", "contexts"),
            output="",
        ),
        JobKind(
            "audit",
            "Audit",
            "backend.jobs.audit_config:AuditJobConfig",
            "backend.jobs.audit_job:run",
            ("batch", "max_new_tokens"),
            output="",
        ),
        JobKind(
            "doctor",
            "Diagnose",
            "backend.jobs.doctor_config:DoctorJobConfig",
            "backend.jobs.doctor_job:run",
            ("batch", "max_new_tokens", "limit"),
            output="",
        ),
        JobKind(
            "sweep",
            "Sweep",
            "backend.jobs.sweep_config:SweepJobConfig",
            "backend.jobs.sweep_job:run",
            ("max_new_tokens", "limit"),
            output="",
        ),
        JobKind(
            "vllm",
            "Serve",
            "backend.jobs.vllm_config:VllmJobConfig",
            "backend.jobs.vllm_job:run",
            ("max_num_seqs", "max_model_len"),
            output="",
            beside="url",
        ),
        JobKind(
            "load-test",
            "Load",
            "backend.jobs.load_config:LoadJobConfig",
            "backend.jobs.load_job:run",
            ("clients", "max_num_seqs"),
            output="",
            beside="url",
        ),
        JobKind(
            "compare-serving",
            "Compare",
            "backend.jobs.compare_config:CompareServingConfig",
            "backend.jobs.compare_job:run",
            ("batch", "max_num_seqs"),
            output="",
            beside="url",
        ),
        JobKind(
            "tune-tree",
            "Tune",
            "backend.jobs.tune_config:TuneJobConfig",
            "backend.jobs.tune_job:run",
            ("nodes",),
            output="",
        ),
        JobKind(
            "export",
            "Export",
            "backend.jobs.export_config:ExportJobConfig",
            "backend.jobs.export_job:run",
            (),
        ),
        JobKind(
            "release",
            "Release",
            "backend.jobs.release_config:ReleaseJobConfig",
            "backend.jobs.release_job:run",
            ("batch", "batch_tokens", "max_new_tokens", "draft_vocab"),
        ),
        JobKind(
            "adapters",
            "Adapters",
            "backend.jobs.adapters_config:AdaptersJobConfig",
            "backend.jobs.adapters_job:run",
            ("batch", "batch_tokens", "max_new_tokens", "draft_vocab"),
            named=("adapter", "prompts"),
        ),
        JobKind(
            "watch",
            "Watch",
            "backend.jobs.watch_config:WatchJobConfig",
            "backend.jobs.watch_job:run",
            (),
            output="",
            computes=False,
        ),
    )
}
