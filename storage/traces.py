"""Steps of a decode run as compact blobs: one format byte, then zlib-compressed JSON of a list of step dictionaries.

Knows nothing of what a step holds, beyond that JSON can hold it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

STEPS_PER_CHUNK = 64
_FORMAT = b"\x01"


class DamagedChunk(Exception):
    """A blob that cannot be read back."""


def pack(steps: Sequence[dict[str, Any]]) -> bytes:
    """The blob of 1 to 64 steps; TypeError where JSON cannot hold a value."""
    if not 1 <= len(steps) <= STEPS_PER_CHUNK:
        raise ValueError(f"a chunk holds 1 to {STEPS_PER_CHUNK} steps, got {len(steps)}")
    # ASCII escapes keep lone surrogates, which UTF-8 could not.
    text = json.dumps(list(steps), ensure_ascii=True, separators=(",", ":"))
    return _FORMAT + zlib.compress(text.encode("ascii"), level=6)


def unpack(blob: bytes) -> list[dict[str, Any]]:
    """The steps of a blob; DamagedChunk where it is cut short, altered, or of an unknown format."""
    if blob[:1] != _FORMAT:
        raise DamagedChunk("unknown format")
    try:
        steps = json.loads(zlib.decompress(blob[1:]))
    except (zlib.error, ValueError) as error:
        raise DamagedChunk(str(error)) from error
    return list(steps)
