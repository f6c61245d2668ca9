"""Folders of published drafters: read without trusting anything, written whole or not at all.

A pickle is read with `weights_only`, so no code in it runs. Knows files, not what the tensors mean.
"""

from __future__ import annotations

import json
import pickle
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from backend.drafters.checkpoint import WEIGHTS, flush_to_disk
from backend.errors import HeadwayError
from backend.targets.checkpoint import read_json, weight_files

CONFIG: Final = "config.json"
NOTE: Final = "headway_export.json"  #: what an exported folder was made from; engines do not look at it
PICKLES: Final = ("*.bin", "*.pt", "*.pth")
_INSIDE: Final = ("medusa_head.", "mtp.", "model.mtp_layers.")  #: drafters that live in their target's checkpoint
NOT_WEIGHTS: Final = ("optimizer", "scheduler", "training_args", "rng_state", "scaler", "trainer_state")


@dataclass(frozen=True)
class Published:
    """A folder as it was found. `note`: what Headway wrote beside an export, {} for others' folders."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    note: dict[str, Any] = field(default_factory=dict)


def read_published(path: Path) -> Published:
    """config.json and the tensors of a folder, or of a single weight file (the config beside it).

    Of a whole target with a drafter inside only the drafter's tensors are read; the others may not fit into memory.
    Raises HeadwayError for what is missing, damaged, or holds code.
    """
    folder = path if path.is_dir() else path.parent
    if not path.exists():
        raise HeadwayError(f"There is no file or folder {path}; give the folder of a drafter.")
    best = folder / "checkpoint_best"
    if path.is_dir() and not (folder / CONFIG).is_file() and (best / CONFIG).is_file():
        folder = path = best  # where a trainer of the speculators library leaves its best one
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    note = read_json(folder / NOTE) if (folder / NOTE).is_file() else {}
    files = [path] if path.is_file() else _files(folder)
    if not files:
        raise HeadwayError(f"{folder} holds no weights (neither safetensors nor .bin or .pt); copy the whole folder.")
    tensors: dict[str, Tensor] = {}
    only = drafters_parts([name for file in files for name in _names(file)])
    for file in files:
        tensors |= _read(file, only)
    return Published(folder, config, tensors, note)


def drafters_parts(names: list[str]) -> tuple[str, ...]:
    """Of a whole target the beginnings of the names that a drafter inside has; () where all are to be read.

    Raises HeadwayError for a target without one.
    """
    if not any(name.startswith("model.layers.1.") for name in names):
        return ()
    found = {part for part in _INSIDE if any(name.startswith(part) for name in names)}
    found |= {name.partition("eh_proj")[0] for name in names if "eh_proj" in name}
    if not found:
        raise HeadwayError("This is a whole language model: use it as a draft model, with draft:FOLDER.")
    return tuple(sorted(found))


def _names(file: Path) -> list[str]:
    """Of a safetensors file, from its header; of others none, since they are read whole anyway."""
    if file.suffix != ".safetensors":
        return []
    with _opened(file) as opened:
        return list(opened.keys())


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, framework="pt") as opened:
            yield opened
    except (OSError, SafetensorError) as error:
        raise HeadwayError(f"{file} is damaged or cut short; fetch it again.") from error


def _files(folder: Path) -> list[Path]:
    found = weight_files(folder) or sorted(folder.glob("*.safetensors"))
    if found:
        return found
    pickles = [file for pattern in PICKLES for file in sorted(folder.glob(pattern))]
    return [file for file in pickles if not file.name.startswith(NOT_WEIGHTS)]


def _read(file: Path, only: tuple[str, ...]) -> dict[str, Tensor]:
    if file.suffix != ".safetensors":
        return read_pickle(file)
    with _opened(file) as opened:
        names = [name for name in opened.keys() if not only or name.startswith(only)]  # noqa: SIM118  # no mapping
        return {name: opened.get_tensor(name) for name in names}


def read_pickle(file: Path) -> dict[str, Tensor]:
    """The tensors of a torch file by name; nested modules are joined with dots.

    Raises HeadwayError for a damaged file and for one that holds anything but tensors, numbers and names.
    """
    try:
        with file.open("rb") as stream:
            known = stream.read(2) in (b"PK", b"\x80\x02", b"\x80\x04")  # torch's zip files and its older pickles
        if not known:
            raise ValueError("neither")
        value = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise HeadwayError(
            f"{file} holds code or objects besides tensors, so it is not opened; ask its author for safetensors."
        ) from None
    except Exception as error:  # torch has as many errors as there are ways to be damaged
        raise HeadwayError(f"{file} is damaged or no torch file; fetch it again.") from error
    found = dict(_flat(value))
    if not found:
        raise HeadwayError(f"{file} holds no tensors; give a file with the weights of a drafter.")
    return found


def _flat(value: Any, prefix: str = "") -> Iterable[tuple[str, Tensor]]:
    if not isinstance(value, Mapping):
        return
    for name, one in value.items():
        if isinstance(one, Tensor):
            yield f"{prefix}{name}", one
        elif isinstance(one, Mapping):
            inner = "" if name in ("state_dict", "model", "module") else f"{prefix}{name}."
            yield from _flat(one, inner)


@dataclass(frozen=True)
class Files:
    """What an engine's folder will hold. `pickle`: name of a torch file instead of model.safetensors.
    `beside`: writes further files into the folder it is given.
    """

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    readme: str
    note: Mapping[str, Any]
    pickle: str | None = None
    beside: Callable[[Path], object] | None = None


def write_files(out: Path, files: Files) -> None:
    """Write a folder so that it is complete or as it was before. Only an older export is replaced. Raises HeadwayError
    for a place that is taken and for tensors that are not finite.
    """
    if out.exists() and not (out.is_dir() and (out / NOTE).is_file()):
        raise HeadwayError(f"{out} exists and is no export of Headway; choose another name so that nothing is lost.")
    for name, tensor in files.tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise HeadwayError(f"The tensor {name} holds numbers that {tensor.dtype} can't; export float32 instead.")
    partial = out.parent / f".{out.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        partial.mkdir(parents=True)
        tensors = _unshared(files.tensors)
        if files.pickle:
            torch.save(tensors, partial / files.pickle)
        else:
            save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
        for name, value in ((CONFIG, files.config), (NOTE, files.note)):
            (partial / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        if files.beside is not None:
            files.beside(partial)
        (partial / "README.md").write_text(files.readme, encoding="utf-8")
        for path in partial.iterdir():
            flush_to_disk(path)
        flush_to_disk(partial)
        _swap(partial, out)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise HeadwayError(f"The export could not be written to {out}: {reason}.") from error


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, each with memory of its own, which safetensors asks for; copied only where it is shared."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        one = tensor.detach().cpu().contiguous()
        place = one.untyped_storage().data_ptr()
        if place in seen or one.untyped_storage().nbytes() != one.numel() * one.element_size():
            one = one.clone()
        seen.add(place)
        found[name] = one
    return found


def _swap(partial: Path, out: Path) -> None:
    aside = out.parent / f".{out.name}.{uuid.uuid4().hex[:8]}.old"
    if out.exists():
        out.rename(aside)
    partial.rename(out)
    flush_to_disk(out.parent)
    shutil.rmtree(aside, ignore_errors=True)
