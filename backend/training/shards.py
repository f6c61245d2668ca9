"""A folder of numbers that a target gave: safetensors shards beside a manifest, whole or not at all.

A shard is written under a temporary name and noted in the manifest with its checksum, so that an interrupted capture
goes on at the next one. Knows neither what the tensors are nor who reads them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from backend.drafters.checkpoint import file_sha256, flush_to_disk, write_json_atomically
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.captures import MANIFEST, folder_name, made_in, read_manifest


def start(
    folder: Path, header: dict[str, Any], positions: int, bytes_each: int, made_by: dict[str, str]
) -> dict[str, Any]:
    """The manifest to go on with; shards that a crash damaged are dropped and made again.

    positions: that there will be in all, of `bytes_each` bytes; made_by: see `makes`. Raises HeadwayError when the
    folder holds something else or the disk has no room.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        manifest = {"header": header, "made_by": made_by, "positions": positions, "shards": []}
    differs = sorted(key for key in header if manifest["header"].get(key) != header[key])
    made = made_in(folder, manifest) or made_by  # of old captures in a folder of any name nothing is known
    differs += sorted(key for key in {*made, *made_by} if made.get(key) != made_by.get(key))
    if differs:
        raise HeadwayError(
            f"{folder} holds features that differ in {', '.join(differs)}; use another folder or delete it."
        )
    whole = []
    for shard in manifest["shards"]:
        try:
            check_shard(folder, shard)
        except HeadwayError:
            break
        whole.append(shard)
    manifest["shards"] = whole
    missing = positions - sum(shard["positions"] for shard in whole)
    _need_room(folder, missing * bytes_each)
    return manifest


def add(folder: Path, manifest: dict[str, Any], tensors: dict[str, Tensor], positions: int) -> None:
    """Write the next shard and note it. Raises HeadwayError when the disk refuses."""
    manifest["shards"].append(_write_shard(folder, len(manifest["shards"]), tensors, positions))
    write_json_atomically(folder / MANIFEST, manifest)


def complete(folder: Path) -> dict[str, Any]:
    """The manifest of a folder that holds all its shards, each of them whole. Raises HeadwayError for any other."""
    manifest = read_manifest(folder)
    if manifest is None or sum(shard["positions"] for shard in manifest["shards"]) != manifest["positions"]:
        raise HeadwayError(
            f"The features in {folder} are not complete; capture them again, it goes on where it stopped."
        )
    for shard in manifest["shards"]:
        check_shard(folder, shard)
    return manifest


def place(parent: Path, header: dict[str, Any], target: Target) -> Path:
    """Where below `parent` features with this header lie when `target` makes them on its device in its dtype."""
    return parent / folder_name(header, makes(target))


def makes(target: Target) -> dict[str, str]:
    """What of a target decides its states beside the weights that its header names."""
    changed = {"adapter": target.identity.adapter_id, "quantisation": target.identity.quantisation}
    made = {"dtype": str(target.dtype), "device": target.device.type}
    return made | {name: value for name, value in changed.items() if value != "none"}


def content(manifest: dict[str, Any]) -> str:
    """Changes when the content of any shard does."""
    return hashlib.sha256("".join(shard["sha256"] for shard in manifest["shards"]).encode()).hexdigest()


@contextmanager
def opened(folder: Path, shard: dict[str, Any]) -> Iterator[Any]:
    """A shard's tensors by name, memory-mapped: `get_tensor(name)`."""
    with safe_open(folder / shard["file"], framework="pt") as file:
        yield file


def _need_room(folder: Path, size: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise HeadwayError(f"The features can't be written to {folder}: {error.strerror}.") from error
    if free < size * 1.05:
        raise HeadwayError(
            f"The features need {size / 1e9:.2f} GB in {folder}, "
            f"and {free / 1e9:.2f} GB are free; make room or use fewer answers."
        )


def _write_shard(folder: Path, number: int, tensors: dict[str, Tensor], positions: int) -> dict[str, Any]:
    name = f"shard-{number:05d}.safetensors"
    partial = folder / f".{name}.partial"
    try:
        save_file(tensors, partial)
        flush_to_disk(partial)
        os.replace(partial, folder / name)
        flush_to_disk(folder)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise HeadwayError(f"The features could not be written to {folder}: {error}.") from error
    path = folder / name
    return {"file": name, "positions": positions, "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def check_shard(folder: Path, shard: dict[str, Any]) -> None:
    path = folder / shard["file"]
    if not path.is_file() or path.stat().st_size != shard["bytes"] or file_sha256(path) != shard["sha256"]:
        raise HeadwayError(f"{path} is damaged or missing; capture the features again, whole shards are kept.")
