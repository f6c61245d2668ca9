"""Why a job failed, as one sentence that says what to do. Knows exceptions and which settings cost memory."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from backend.errors import HeadwayError
from backend.jobs.kinds import JobKind
from storage import StoreError

_CPU_MEMORY = ("not enough memory", "can't allocate memory", "cannot allocate memory", "alloc_cpu")


def sentence(error: BaseException, kind: JobKind, config: BaseModel | None) -> str:
    """What to tell the person."""
    if is_out_of_memory(error):
        return _memory(kind, config)
    if isinstance(error, (HeadwayError, StoreError)):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"The package {package} is missing here; install Headway's requirements and resume the job."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full; make room and resume the job, what was written before is kept."
    return (
        f"Headway failed inside ({type(error).__name__}: {_first_line(error)}); the log has the details, please "
        "report it."
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, torch's on a device, or torch's on the host. Imports no torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _CPU_MEMORY)


def _memory(kind: JobKind, config: BaseModel | None) -> str:
    values = dict(_values(config.model_dump())) if config is not None else {}
    named = [f"{name} (now {values[name]})" for name in kind.lower if values.get(name)]
    first = named[0] if named else "the batch"
    rest = f", or {' or '.join(named[1:])}" if named[1:] else ""
    return (
        f"Memory ran out; start again with a lower {first}{rest}, or close other programs and resume: "
        "the last checkpoint is kept."
    )


def _values(data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _values(value)
        else:
            yield key, value


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no message"
