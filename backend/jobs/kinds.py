"""Which kinds of job there are. A kind is a config, a function that does the work, and a few words about it.

Torch-free: configs are imported when they are asked for, the work when a worker runs it. The dashboard, the worker and
the command line all start from here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

if TYPE_CHECKING:
    from backend.jobs.context import JobContext


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Args:
        name: as it stands in the store and on the command line.
        title: for people.
        config_at, run_at: `module:name` of the config class and of `run(config, context) -> dict`.
        lower: which settings to lower when memory runs out.
        output: the config's field that names the file or folder it writes, "" when there is none.
    """

    name: str
    title: str
    config_at: str
    run_at: str
    lower: tuple[str, ...]
    output: str = "out"

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
        subject = data.get("name") or Path(data.get(self.output) or "").stem or Path(source).stem
        return f"{self.title} {subject} with {Path(str(data.get('target', ''))).name}".strip()

    def exclusive(self, config: BaseModel) -> str | None:
        """What no other open job may have: the place the job writes to; None when that is not known yet."""
        place = getattr(config, self.output, None) if self.output else None
        return f"file:{Path(place).expanduser().absolute()}" if place else None


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
        ),
        JobKind(
            "train",
            "Train",
            "backend.jobs.configs:TrainJobConfig",
            "backend.jobs.train_job:run",
            ("batch_tokens", "draft_vocab", "num_heads"),
        ),
        JobKind(
            "evaluate",
            "Evaluate",
            "backend.jobs.evaluate_config:EvaluateJobConfig",
            "backend.jobs.evaluate_job:run",
            ("batch", "max_new_tokens"),
            output="",
        ),
    )
}
