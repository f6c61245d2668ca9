"""The files a job reads, by content: hashed when it starts, compared when it goes on.

A data file that changes under a job would make one result out of two inputs; the job refuses instead. Knows no kind of
job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from backend.drafters.checkpoint import write_json_atomically
from backend.errors import HeadwayError

NOTE = "inputs.json"


def hash_files(files: Iterable[Path]) -> dict[str, str]:
    """sha256 by absolute path. Raises HeadwayError for a file that can't be read."""
    return {str(path.absolute()): _sha256(path) for path in files}


def pin_files(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Hash the files and note them in `folder`; at a later attempt compare with the note.

    Raises HeadwayError when a file can't be read or has another content than the job began with.
    """
    found = hash_files(files)
    note = folder / NOTE
    if note.is_file():
        try:
            before = json.loads(note.read_text(encoding="utf-8"))
        except ValueError:
            raise HeadwayError(f"{note} is damaged; start the job anew.") from None
        changed = [path for path, digest in found.items() if before.get(path, digest) != digest]
        if changed:
            raise HeadwayError(
                f"{changed[0]} has changed since this job started; put the old file back and resume, "
                "or start a new job with the new one."
            )
        found = before | found
    write_json_atomically(note, found)
    return found


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HeadwayError(f"{path} can't be read: {error.strerror or error}.") from None
