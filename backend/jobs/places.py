"""Where a job writes when nobody said so: a free name in the home folder, chosen once and noted in the job's folder.

Knows files and names; reads no results.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from backend.drafters.checkpoint import write_text_atomically
from backend.errors import HeadwayError

NOTE = "place.txt"


def slug(text: str) -> str:
    """A file name of letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "unnamed"


def chosen_place(folder: Path, given: str | None, parent: Path, name: str, suffix: str = "") -> Path:
    """`given`, or `parent`/name[-2, -3 ...]suffix that nothing is at yet; the same at every attempt of the job whose
    own folder is `folder`.
    """
    if given is not None:
        return Path(given).expanduser().absolute()
    note = folder / NOTE
    if note.is_file():
        return Path(note.read_text(encoding="utf-8").strip())
    base, number = slug(name), 1
    place = parent / f"{base}{suffix}"
    while not _claim(folder, parent, place):
        number += 1
        place = parent / f"{base}-{number}{suffix}"
        if number > 9999:
            raise HeadwayError(f"There are too many things named {base} in {parent}; give the job a name.")
    write_text_atomically(note, f"{place}\n")
    return place


def _claim(folder: Path, parent: Path, place: Path) -> bool:
    """Whether the place is free, taken for us by a hidden file, so that two jobs don't choose the same."""
    claim = parent / f".{place.name}.claimed"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if place.exists():
            return False
        mine = folder / "claim.txt"
        write_text_atomically(mine, str(folder.absolute()))
        try:
            os.link(mine, claim)
        except FileExistsError:  # ours, if an attempt was killed before it could note what it took
            return claim.read_text(encoding="utf-8") == str(folder.absolute())
        return True
    except OSError as error:
        raise HeadwayError(f"{parent} can't be written to: {error.strerror}.") from None


def write_result(folder: Path, name: str, text: str, out: str | None) -> Path:
    """Keep `text` as `name` in the job's folder, and at `out` too where somebody wants it there; returns the place to
    tell. Raises HeadwayError when one can't be written.
    """
    places = [folder / name, *([Path(out).expanduser()] if out is not None else [])]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(place, text)
    return places[-1]


def release(place: Path) -> None:
    """Remove the claim once something stands there."""
    (place.parent / f".{place.name}.claimed").unlink(missing_ok=True)
