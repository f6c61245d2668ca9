"""The weight files of a Hugging Face folder: what tensors they hold and whether they are whole.

Reads headers, not weights. Knows the safetensors layout (8 bytes of header length, a JSON header, then the data) and
the shard index; builds no model.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.errors import HeadwayError

SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
_MAX_HEADER: Final = 100_000_000  # the format's own limit


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint: its name, shape, safetensors dtype (such as "BF16"), bytes and file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    num_bytes: int
    file: Path

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


def weight_files(folder: Path) -> list[Path]:
    """The checkpoint's safetensors files in name order, [] if it has none. Raises HeadwayError for a missing shard."""
    index = folder / INDEX_FILE
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    if not index.is_file():
        return []
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise HeadwayError(f"The checkpoint {folder} is damaged: {INDEX_FILE} lists no weight files; fetch it again.")
    files = [folder / Path(shard).name for shard in sorted(set(shards.values()))]
    for file in files:
        if not file.is_file():
            raise HeadwayError(f"The checkpoint {folder} is incomplete: {file.name} is missing; fetch it again.")
    return files


def stored_tensors(folder: Path) -> list[StoredTensor]:
    """All tensors by name order, from the headers alone. Raises HeadwayError when a file is cut short or unreadable."""
    tensors = [tensor for file in weight_files(folder) for tensor in _header(file)]
    return sorted(tensors, key=lambda tensor: tensor.name)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; raises HeadwayError with the file's name when it is unreadable or no object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeadwayError(f"The file {path} cannot be read: {(error.strerror or 'error').lower()}.") from error
    except ValueError as error:
        raise HeadwayError(f"The file {path} is damaged: it is not valid JSON.") from error
    if not isinstance(value, dict):
        raise HeadwayError(f"The file {path} is damaged: it holds no JSON object.")
    return value


def _header(file: Path) -> list[StoredTensor]:
    damaged = f"The checkpoint file {file} is damaged or cut short; fetch it again."
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            prefix = stream.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else _MAX_HEADER + 1
            header = json.loads(stream.read(length)) if length <= _MAX_HEADER else None
        if not isinstance(header, dict):
            raise HeadwayError(damaged)
        header.pop("__metadata__", None)
        tensors = [_entry(name, entry, file) for name, entry in header.items()]
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except OSError as error:
        raise HeadwayError(f"The file {file} cannot be read: {(error.strerror or 'error').lower()}.") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise HeadwayError(damaged) from error
    if size != 8 + length + end:
        raise HeadwayError(damaged)
    return tensors


def _entry(name: str, entry: dict[str, Any], file: Path) -> StoredTensor:
    begin, end = entry["data_offsets"]
    return StoredTensor(name, tuple(int(n) for n in entry["shape"]), str(entry["dtype"]), int(end) - int(begin), file)
