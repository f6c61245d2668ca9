"""A job that is a part of another one: its own folder, what it found kept there, everything else passed on.

So a job that is made of others goes on where it was killed: a stage that is over is not done again, and one that was
under way goes on as it would alone. Knows no kind of job. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from backend.drafters.checkpoint import write_json_atomically
from backend.errors import HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.inputs import pin_files

RESULT = "result.json"
ASKED = "asked.json"
ITEMS = "items.jsonl"


def stage(
    context: JobContext, name: str, work: Callable[[StageContext], Mapping[str, Any]], metrics: bool = False
) -> dict[str, Any]:
    """What `work` returns, done once: the result is kept in the folder `name` of the job's own. `metrics`: figures of
    steps are those of the whole job; at most one stage can have them.
    """
    folder = context.folder / name
    kept = folder / RESULT
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    folder.mkdir(parents=True, exist_ok=True)
    result = dict(work(StageContext(context, name, metrics)))
    write_json_atomically(kept, result)
    return result


def begun_as(context: JobContext, told: Mapping[str, Any], what: str) -> None:
    """What an earlier attempt left in the job's folder belongs to the same job, or this is the first attempt. `told`:
    all its settings as JSON; `what`: what it is called.

    Raises HeadwayError where the folder holds what other settings left.
    """
    note = context.folder / ASKED
    if note.is_file() and json.loads(note.read_text(encoding="utf-8")) != told:
        raise HeadwayError(
            f"{context.folder} holds what an unfinished {what} with other settings left; end that one with its own "
            "command, or delete the folder."
        )
    write_json_atomically(note, told)


class StageContext:
    """See JobContext; `inner` is that of the whole job."""

    def __init__(self, inner: JobContext, name: str, metrics: bool = False) -> None:
        self._inner, self._name, self._metrics = inner, name, metrics
        self.settings, self.device, self.store, self.job_id = inner.settings, inner.device, inner.store, inner.job_id
        self.folder = inner.folder / name

    def progress(self, done: float, total: float, unit: str = "", note: str = "") -> None:
        self._inner.progress(done, total, unit, f"{self._name}: {note}" if note else self._name)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if self._metrics:
            self._inner.metrics(step, values)

    def resumed_at(self, step: int) -> None:
        if self._metrics:
            self._inner.resumed_at(step)

    def item(self, key: str, data: Mapping[str, Any]) -> None:
        with (self.folder / ITEMS).open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, dict(data)], ensure_ascii=False) + "\n")

    def items(self) -> dict[str, dict[str, Any]]:
        """The last of each key; a line that a kill cut off is no part."""
        file = self.folder / ITEMS
        found: dict[str, dict[str, Any]] = {}
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            whole, _, cut = text.rpartition("\n")
            if cut:
                file.write_text(whole + "\n" if whole else "", encoding="utf-8")
            for line in filter(None, whole.split("\n")):
                key, data = json.loads(line)
                found[key] = data
        return found

    def should_stop(self) -> bool:
        return self._inner.should_stop()

    def log(self, sentence: str) -> None:
        self._inner.log(sentence)

    def link(
        self, *, version_id: str | None = None, drafter_id: str | None = None, dataset_id: str | None = None
    ) -> None:
        """The whole job says itself what it belongs to."""

    def pin(self, files: Iterable[Path]) -> dict[str, str]:
        return pin_files(self.folder, files)
