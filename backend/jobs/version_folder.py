"""The folder of a version that was made here: a Hugging Face folder with a note that says where it came from.

Knows files; trains nothing.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any, Final

from backend.drafters.checkpoint import flush_to_disk
from backend.errors import HeadwayError

VERSION_NOTE: Final = "headway-version.json"  #: in the folder of a version that was made here


def check_free(folder: Path) -> None:
    """Raises HeadwayError for a folder that somebody else made."""
    if folder.exists() and not (folder / VERSION_NOTE).is_file():
        raise HeadwayError(f"{folder} exists and was not made by this job; choose another folder for the new target.")


def write_version(folder: Path, model: Any, tokenizer: Any, made_by: str) -> None:
    """The new target, whole or not at all; one that this job wrote before is replaced. Raises HeadwayError."""
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        partial.mkdir(parents=True)
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        (partial / VERSION_NOTE).write_text(json.dumps({"made_by": made_by}), encoding="utf-8")
        for file in partial.iterdir():
            flush_to_disk(file)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        flush_to_disk(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise HeadwayError(f"The new target could not be written to {folder}: {error.strerror or error}.") from error
