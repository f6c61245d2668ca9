"""What a job is handed to do its work with: where to write, whom to tell, when to stop.

A job's `run(config, context)` is the same on the command line, in a worker and in a test; what differs is the context.
`ConsoleContext` draws bars, `backend.jobs.store_context.StoreContext` writes to the store, and a command that is
recorded does both. Knows no kind of job. No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tqdm import tqdm

from backend.jobs.console import say
from backend.settings import Settings

if TYPE_CHECKING:
    from storage import Store


class JobContext(Protocol):
    """See the module. `folder` belongs to the job alone and is there; `device` is a word like cuda, None for the best
    there is; `store` is None when nothing is remembered; `job_id` then too.
    """

    settings: Settings
    folder: Path
    device: str | None
    store: Store | None
    job_id: str | None

    def progress(self, done: float, total: float, unit: str = "", note: str = "") -> None:
        """How far the job is; `unit` names what is counted, as in "answers", `note` says more."""
        ...

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step; those of the same step are merged. They are stored when this returns."""
        ...

    def resumed_at(self, step: int) -> None:
        """The job goes on after `step`: rows of later steps, which an earlier attempt left, are dropped."""
        ...

    def item(self, key: str, data: Mapping[str, Any]) -> None:
        """The result of one independent part; a part with the same key is replaced."""
        ...

    def items(self) -> dict[str, dict[str, Any]]:
        """The parts that are there already, those of earlier attempts included."""
        ...

    def should_stop(self) -> bool:
        """Whether to save and return. Ask often: at every step, every answer, every batch."""
        ...

    def log(self, sentence: str) -> None:
        """A sentence for people."""
        ...

    def link(
        self, *, version_id: str | None = None, drafter_id: str | None = None, dataset_id: str | None = None
    ) -> None:
        """Which stored things the job belongs to."""
        ...

    def pin(self, files: Iterable[Path]) -> dict[str, str]:
        """Content hashes (sha256) of the job's input files by path, taken at its first attempt.

        Raises HeadwayError when a file is missing, or when a resumed job finds other content than it began with.
        """
        ...


@dataclass
class ConsoleContext:
    """A person at a terminal, nothing remembered. Bars and sentences go to stderr, unless quiet."""

    settings: Settings
    folder: Path
    quiet: bool = False
    device: str | None = None
    stopped: Callable[[], bool] = lambda: False
    store: Store | None = None
    job_id: str | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _bar: Any = field(default=None, repr=False)
    _shown: tuple[str, float] = ("", 0)

    def progress(self, done: float, total: float, unit: str = "", note: str = "") -> None:
        if self.quiet:
            return
        if self._bar is None or self._shown != (unit, total):
            self.close()
            self._bar, self._shown = tqdm(total=total, unit=unit or "it", delay=2), (unit, total)
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        return None

    def resumed_at(self, step: int) -> None:
        return None

    def item(self, key: str, data: Mapping[str, Any]) -> None:
        self.parts[key] = dict(data)

    def items(self) -> dict[str, dict[str, Any]]:
        return dict(self.parts)

    def should_stop(self) -> bool:
        return self.stopped()

    def log(self, sentence: str) -> None:
        if not self.quiet:
            say(sentence)

    def link(
        self, *, version_id: str | None = None, drafter_id: str | None = None, dataset_id: str | None = None
    ) -> None:
        return None

    def pin(self, files: Iterable[Path]) -> dict[str, str]:
        from backend.jobs.inputs import hash_files

        return hash_files(files)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
