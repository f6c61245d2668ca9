"""GGUF files as targets: converted once into a Hugging Face folder in the cache, then loaded like any other folder.

The conversion de-quantises the weights to float32 (exactly: every GGUF block format is scale times small integer) and
keeps tokenizer and chat template. It knows nothing of devices or drafters. Two processes may ask for the same file at
once: one converts under a file lock, the other waits; a finished folder appears by rename, never half written.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from filelock import FileLock
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from backend.errors import HeadwayError

Progress = Callable[[float, str], None]  # (fraction done 0 … 1, sentence)

_RECIPE: Final = 1  # part of the folder's name: raise it when the conversion changes
_CHUNK: Final = 2**20
_MAX_CHUNKS: Final = 64
_NOT_KEPT: Final = ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version")


def converted_folder(path: Path, cache: Path) -> Path:
    """The folder that `path` is or will be converted to: `<cache>/targets/<name>-<hash of the content>`."""
    return cache / "targets" / f"{path.stem}-{_fingerprint(path)}"


def convert_gguf(path: Path, cache: Path, progress: Progress | None = None) -> Path:
    """Returns the Hugging Face folder for a GGUF file, converting it if that was not done before (about 30 s per 135M).

    Raises HeadwayError when the file is not a GGUF file, is damaged, holds an architecture that cannot be converted, or
    the cache folder cannot be written.
    """
    _check_magic(path)
    folder = converted_folder(path, cache)
    if folder.is_dir():
        return folder
    report = progress or (lambda fraction, sentence: None)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f".{folder.name}.lock"):
            if not folder.is_dir():  # another process may have made it while we waited
                _convert_into(path, folder, report)
    except (OSError, SafetensorError) as error:  # safetensors wraps the operating system's error in its own
        reason = getattr(error, "strerror", None) or "the disk is full or not writable"
        raise HeadwayError(f"The GGUF file {path} could not be converted into {folder}: {reason.lower()}.") from error
    return folder


def _convert_into(path: Path, folder: Path, report: Progress) -> None:
    for stale in folder.parent.glob(f".{folder.name}.part-*"):  # left by a killed process; we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    try:
        report(0.0, f"Reading {path.name} (done once, then kept in the cache)")
        try:
            with quiet_bars():
                tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
                report(0.1, f"De-quantising {path.name}")
                source = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
                model = _plain_model(source)
        except Exception as error:  # the reader raises many types on damaged or unknown files
            if isinstance(error, OSError) and error.errno is not None:  # the disk's fault, told apart by the caller
                raise
            raise HeadwayError(
                f"The GGUF file {path} could not be read: it is damaged, or its architecture cannot be converted."
            ) from error
        report(0.8, "Writing the converted model into the cache")
        with quiet_bars():
            model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        _make_readable(part)
        os.rename(part, folder)
        report(1.0, f"Converted {path.name}")
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _plain_model(source: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model that has forgotten its quantisation, which would block saving; tensors are shared."""
    settings = {key: value for key, value in source.config.to_dict().items() if key not in _NOT_KEPT}
    settings = _shortest_floats(settings)
    settings.update(architectures=[type(source).__name__], dtype="float32")
    config = type(source.config)(**settings)
    with torch.device("meta"):
        model = type(source)(config)
    model.load_state_dict(source.state_dict(), assign=True)
    model.tie_weights()
    tokens = {key: getattr(config, key, None) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if tokens["pad_token_id"] is None:
        tokens["pad_token_id"] = tokens["eos_token_id"]
    model.generation_config = GenerationConfig(**tokens)
    return model


def _shortest_floats(value: Any) -> Any:
    """GGUF stores numbers as float32, so 1e-5 comes back as 9.9999997e-06: take the shortest decimal of it."""
    if isinstance(value, dict):
        return {key: _shortest_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortest_floats(item) for item in value]
    if isinstance(value, float) and value == float(np.float32(value)):
        return float(str(np.float32(value)))
    return value


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise HeadwayError(f"The GGUF file {path} cannot be read: {(error.strerror or 'error').lower()}.") from error
    if magic != b"GGUF":
        raise HeadwayError(f"The file {path} is not a GGUF file: it does not begin with the letters GGUF.")


def _fingerprint(path: Path) -> str:
    """12 hex digits over size and content: the whole file up to 64 MiB, 64 evenly spaced MiB of a larger one."""
    size = path.stat().st_size
    count = max(1, min(_MAX_CHUNKS, -(-size // _CHUNK)))
    digest = hashlib.sha256(f"{_RECIPE} {size}".encode())
    with path.open("rb") as file:
        for index in range(count):
            file.seek(index * (size - _CHUNK) // (count - 1) if size > _MAX_CHUNKS * _CHUNK else index * _CHUNK)
            digest.update(file.read(_CHUNK))
    return digest.hexdigest()[:12]


def _make_readable(folder: Path) -> None:
    """mkdtemp and safetensors leave files for the owner only; the cache may be shared."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


@contextmanager
def quiet_bars() -> Iterator[None]:
    """Keeps transformers from drawing its own progress bars; ours go through the progress callback."""
    enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            transformers_logging.enable_progress_bar()
