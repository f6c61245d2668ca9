"""Files that nothing in the store refers to any more: found, measured, and deleted when asked.

A *home* is a folder with one entry (file or folder) for each thing: `jobs/<job id>`, `features/<name>`, artifacts by
hash. An entry is referred to when its name is a part of any path, id or hash in any row, so that in doubt it stays; a
hidden `.<name>.work` belongs to `<name>`. What was changed within the last hour stays as well: somebody may be about to
write the row. Knows the tables, not what the files hold.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.errors import one_sentence
from storage.tables import Dataset, DecodeRun, Drafter, Job, JobItem, Version

YOUNG_S = 3600.0
_SHARD = re.compile(r"[0-9a-f]{2}")  # artifacts lie one level deeper, below the first two characters of their hash


@dataclass(frozen=True, kw_only=True)
class Orphan:
    """A file or folder that no row refers to. `home` is the name of the folder it lies in, as the caller calls it."""

    home: str
    path: Path
    num_bytes: int


def find(session: Session, homes: Mapping[str, Path], now_s: float, *, by_hash: str = "artifacts") -> list[Orphan]:
    """What could be deleted, the largest first. now_s: the time in seconds since 1970, as file times have it.

    by_hash: the home whose entries lie below two characters of their hash.
    """
    referred = _referred(session)
    found = []
    for home, folder in homes.items():
        for entry in _entries(folder, home == by_hash):
            if referred.isdisjoint(_names(entry)) and (size := _old_size(entry, now_s - YOUNG_S)) is not None:
                found.append(Orphan(home=home, path=entry, num_bytes=size))
    return sorted(found, key=lambda orphan: (-orphan.num_bytes, orphan.path))


def delete_orphan(orphan: Orphan) -> None:
    """Delete an orphan, if it is still there; StoreError where it cannot be. Links are deleted, never followed."""
    with one_sentence(str(orphan.path)):
        if orphan.path.is_dir() and not orphan.path.is_symlink():
            shutil.rmtree(orphan.path)
        else:
            orphan.path.unlink(missing_ok=True)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, 0 where there is none; links are not followed."""
    return sum(size for size, _ in _files(folder))


def _referred(session: Session) -> set[str]:
    """The parts of all paths, ids and hashes that rows hold."""
    columns = (
        (Job.id, Job.exclusive, Job.config, Job.result, Job.progress),
        (JobItem.data,),
        (Dataset.id, Dataset.path, Dataset.content_hash, Dataset.details, Dataset.lineage),
        (Drafter.id, Drafter.path, Drafter.weights_hash, Drafter.config, Drafter.lineage),
        (Version.id, Version.source, Version.weights_id, Version.details),
        (DecodeRun.settings,),
    )
    parts: set[str] = set()
    for some in columns:
        for row in session.execute(select(*some).distinct()):
            for text in _texts(list(row)):
                found = re.split(r"[/\\:]", text)
                parts.update(found)
                parts.update(part.rpartition("@")[0] for part in found)  # JOB@STEP: weights of a step of a job
    return parts


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _names(entry: Path) -> set[str]:
    owner = entry.name[1:].rpartition(".")[0] if entry.name.startswith(".") else ""
    return {entry.name, owner} - {""}


def _entries(folder: Path, by_hash: bool) -> Iterator[Path]:
    if not folder.is_dir():
        return
    with one_sentence(str(folder)):
        for entry in sorted(folder.iterdir()):
            if by_hash and _SHARD.fullmatch(entry.name) and entry.is_dir():
                yield from sorted(entry.iterdir())
            else:
                yield entry


def _old_size(entry: Path, before_s: float) -> int | None:
    """Bytes of an entry, or None where it is gone or anything in it was changed after a moment."""
    files = list(_files(entry))
    if not files or max(changed for _, changed in files) >= before_s:
        return None
    return sum(size for size, _ in files)


def _files(entry: Path) -> Iterator[tuple[int, float]]:
    """(bytes, time of the last change) of an entry and all below it; what vanishes meanwhile is left out."""
    inner = os.walk(entry) if entry.is_dir() and not entry.is_symlink() else []
    paths = [str(entry), *(os.path.join(root, name) for root, folders, names in inner for name in folders + names)]
    for path in paths:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        yield (0 if stat.S_ISDIR(status.st_mode) else status.st_size), status.st_mtime
