"""What a target turned out to be when it was last opened under some name, so that a plan knows it without opening it.

A note a name, device and dtype as they were asked for; it holds as long as the files behind the name do not change.
Torch-free; knows files, no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.errors import HeadwayError
from backend.targets.checkpoint import read_json
from backend.targets.notes import write_note
from backend.targets.sources import SourceKind, TargetSource, resolve_source

_SCHEME: Final = 1


@dataclass(frozen=True)
class KnownTarget:
    """`weights_id`, and what else decides its states: see captures.made_in."""

    weights_id: str
    made_by: Mapping[str, str]


def remember_target(cache: Path, name: str, device: str | None, dtype: str | None, known: KnownTarget) -> None:
    """Keep it for the next plan. Nothing is kept of what can't be looked at without opening it."""
    with suppress(HeadwayError, OSError):  # a cache that can't be written costs accuracy of a plan alone
        stamp = _stamp(name)
        note = {"stamp": stamp, "weights_id": known.weights_id, "made_by": dict(known.made_by)}
        if stamp is not None:
            write_note(_place(cache, name, device, dtype), note)


def known_target(cache: Path, name: str, device: str | None, dtype: str | None) -> KnownTarget | None:
    """None for one that was never opened in this way, or that has changed."""
    try:
        note: dict[str, Any] = read_json(_place(cache, name, device, dtype))
        stamp = _stamp(name)
    except (HeadwayError, OSError):
        return None
    if stamp is None or note.get("stamp") != stamp:
        return None
    return KnownTarget(str(note["weights_id"]), dict(note["made_by"]))


def _place(cache: Path, name: str, device: str | None, dtype: str | None) -> Path:
    return cache / "identity" / f"named-{_hash([_SCHEME, name, device, dtype])[:24]}.json"


def _stamp(name: str) -> str | None:
    """Changes when a file behind the name does; None where that can't be seen."""
    source = resolve_source(name)
    parts = [source, getattr(source, "adapter", None)]
    stamps = [_stamp_of(part) for part in parts if part is not None]
    return None if None in stamps else _hash([name, stamps])


def _stamp_of(part: Any) -> Any:
    path: Path | None = part.path
    if path is None:
        # A hub's name may stand for something else tomorrow; a tiny target's never does.
        return "tiny" if isinstance(part, TargetSource) and part.kind is SourceKind.TINY else None
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
