"""Small JSON files in the cache folder that spare work next time. Knows nothing of what stands in them."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_note(path: Path, content: Any) -> None:
    """Replace a note; readers see the old or the new one, never a part. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
