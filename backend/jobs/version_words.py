"""Versions as other processes are told them, and what may be a label. Torch-free; reads no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.errors import HeadwayError
from storage import DrafterRecord, VersionRecord

MOST_LABEL = 40  #: characters


def to_check(version: VersionRecord, drafters: Sequence[DrafterRecord]) -> dict[str, Any]:
    """A version and its drafters as version_files is told them."""
    return {
        "id": version.id,
        "source": version.source,
        "identity": version.identity.parts(),
        "drafters": [
            {"id": one.id, "name": one.name, "path": one.path, "weights_hash": one.weights_hash} for one in drafters
        ],
    }


def to_compare(version: VersionRecord) -> dict[str, Any]:
    """A version as a comparison of two is told it: where it lies, and what must be there."""
    return {"source": version.source, "identity": version.identity.parts()}


def checked_label(text: str) -> str:
    """Raises HeadwayError for a label that is none."""
    if not text.strip() or len(text) > MOST_LABEL or "," in text:
        raise HeadwayError(f"A label is a word or a few, at most {MOST_LABEL} characters and without a comma.")
    return text.strip()
