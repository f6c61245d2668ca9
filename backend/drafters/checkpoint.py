"""Folders that hold a trained drafter: `headway.json` (what it is) and `model.safetensors` (its weights), for every
family.

A folder is written under a temporary name and renamed, so a half-written one is never visible. Reading trusts nothing:
a damaged or foreign folder is refused with one sentence. Knows no family; each one's checkpoint.py says which tensors
it expects.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from backend.errors import HeadwayError

META: Final = "headway.json"
WEIGHTS: Final = "model.safetensors"
ConfigT = TypeVar("ConfigT", bound=BaseModel)
ModelT = TypeVar("ModelT", bound=nn.Module)


class FaultyTensorsError(HeadwayError):
    """Tensors that do not make up a drafter; `fault`: missing, unknown, shape or not-finite."""

    def __init__(self, sentence: str, fault: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class DrafterMeta(BaseModel):
    """The content of `headway.json`.

    `config` is the family's own; `version` is the identity of the target it was trained for, and `also` are those of
    further ones whose own answers it learned from, so that it fits them as well; `tree` is the static tree to use when
    none is named, as Medusa paths, or `dynamic` the one that is grown instead (see trees/dynamic.py); `numbers` is what
    it reached, with conditions; `lineage` is where it came from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = Field(1, ge=1, le=1)
    family: str
    name: str
    config: dict[str, Any]
    version: dict[str, str]
    also: list[dict[str, str]] = []
    lineage: dict[str, Any] = {}
    tree: list[list[int]] = []
    dynamic: dict[str, int] | None = None
    numbers: dict[str, Any] = {}
    weights_sha256: str = ""


def write_folder(folder: Path, meta: DrafterMeta, tensors: Mapping[str, Tensor]) -> None:
    """Write a drafter so that the folder is either complete or as it was before.

    An older drafter of the same name is replaced; any other folder or file in the way is left alone. Raises
    HeadwayError.
    """
    if folder.exists() and not (folder / META).is_file():
        raise HeadwayError(
            f"{folder} exists and is no drafter folder; choose another name so that nothing is overwritten."
        )
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        partial.mkdir(parents=True)
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, partial / WEIGHTS)
        complete = meta.model_copy(update={"weights_sha256": file_sha256(partial / WEIGHTS)})
        (partial / META).write_text(complete.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for name in (WEIGHTS, META):
            flush_to_disk(partial / name)
        flush_to_disk(partial)
        _put_in_place(partial, folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise HeadwayError(f"The drafter could not be written to {folder}: {_reason(error)}.") from error


def read_folder(folder: Path) -> tuple[DrafterMeta, dict[str, Tensor]]:
    """Read a drafter's folder, weights on the CPU. Raises HeadwayError when a file is missing, damaged or of another
    program.
    """
    meta = read_meta(folder)
    path = folder / WEIGHTS
    if not path.is_file():
        raise HeadwayError(f"The drafter {folder} has no {WEIGHTS}; copy the whole folder again.")
    if meta.weights_sha256 and file_sha256(path) != meta.weights_sha256:
        raise HeadwayError(f"{path} is damaged (its checksum differs from {META}); copy or train the drafter again.")
    try:
        return meta, load_file(path)
    except (OSError, SafetensorError) as error:
        raise HeadwayError(f"{path} can't be read ({_reason(error)}); copy or train the drafter again.") from error


def read_meta(folder: Path) -> DrafterMeta:
    """Read `headway.json` alone. Raises HeadwayError."""
    path = folder / META
    try:
        return DrafterMeta.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwayError(
            f"{folder} holds no {META}, so it is no drafter folder; name one, or use none or ngram."
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "not text"
        raise HeadwayError(
            f"{path} is damaged or of another version of Headway ({detail}); copy the folder again."
        ) from None
    except OSError as error:
        raise HeadwayError(f"{path} can't be read: {_reason(error)}.") from error


def write_model(
    folder: Path, family: str, config: BaseModel, model: nn.Module, meta: DrafterMeta, dtype: torch.dtype
) -> None:
    """Write a family's model; float16 halves the size at a loss far below what training noise leaves. Raises
    HeadwayError.
    """
    tensors = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in model.state_dict().items()
    }
    overflowed = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if overflowed:
        raise HeadwayError(
            f"The drafter's {overflowed[0]} holds numbers that {dtype} can't; train again or store float32."
        )
    write_folder(folder, meta.model_copy(update={"family": family, "config": config.model_dump()}), tensors)


def read_model(
    folder: Path, config_class: type[ConfigT], build: Callable[[ConfigT], ModelT]
) -> tuple[DrafterMeta, ModelT]:
    """Read a family's model in float32 on the CPU; every tensor is checked, the token map too. Raises HeadwayError."""
    meta, tensors = read_folder(folder)
    try:
        config = config_class.model_validate(meta.config)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise HeadwayError(f"The drafter {folder} has a setting Headway does not know or accept: {where}.") from None
    model = build(config)
    check_tensors(folder, tensors, {name: tensor.shape for name, tensor in model.state_dict().items()})
    tokens, vocabulary = tensors["token_map"], int(getattr(config, "vocab_size"))  # noqa: B009  # every family has one
    inside = (tokens >= 0) & (tokens < vocabulary)
    if tokens.dtype != torch.int64 or not bool(inside.all()) or len(tokens.unique()) != len(tokens):
        raise HeadwayError(f"The drafter {folder} has a damaged token map; copy or train it again.")
    model.load_state_dict(tensors)  # copies, and turns half precision into float32
    return meta, model


def check_tensors(folder: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, torch.Size]) -> None:
    """Compare key by key with the shapes a family expects; raise FaultyTensorsError for what is missing, unknown,
    misshapen, not finite.
    """
    missing, unknown = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    problem, fault = None, ""
    if missing:
        problem, fault = f"tensor {missing[0]} is missing", "missing"
    elif unknown:
        problem, fault = f"tensor {unknown[0]} is unknown", "unknown"
    for name in sorted(expected.keys() & tensors.keys()):
        if problem:
            break
        found = tensors[name]
        if found.shape != expected[name]:
            problem, fault = f"tensor {name} is {list(found.shape)} and should be {list(expected[name])}", "shape"
        elif found.is_floating_point() and not bool(torch.isfinite(found).all()):
            problem, fault = f"tensor {name} holds numbers that are not finite", "not-finite"
    if problem:
        raise FaultyTensorsError(
            f"The drafter {folder} does not fit its {META}: {problem}; copy or train it again.", fault
        )


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_to_disk(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text_atomically(path: Path, text: str) -> None:
    """Replace a small file so that readers see the old or the new content, never a part."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    partial.write_text(text, encoding="utf-8")
    flush_to_disk(partial)
    os.replace(partial, path)
    flush_to_disk(path.parent)


def write_json_atomically(path: Path, value: Any) -> None:
    write_text_atomically(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def _put_in_place(partial: Path, folder: Path) -> None:
    # A folder can't be renamed over a full one: the old one steps aside first and is deleted last.
    aside = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}.old"
    if folder.exists():
        os.rename(folder, aside)
    os.rename(partial, folder)
    flush_to_disk(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
