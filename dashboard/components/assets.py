"""The JavaScript and CSS of the components as served files. Their address holds a hash of their content, so that
browsers may keep them for ever and still never see an old one. Knows no component."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent
SUFFIXES = (".js", ".css")


@lru_cache(maxsize=1)
def assets() -> dict[str, bytes]:
    """Content by path relative to this folder; only what a browser needs, so nothing else can be asked for."""
    files = sorted(path for path in FOLDER.rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in files}


@lru_cache(maxsize=1)
def base_path() -> str:
    digest = hashlib.sha256()
    for name, content in assets().items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    return f"/headway/static/{digest.hexdigest()[:12]}"
