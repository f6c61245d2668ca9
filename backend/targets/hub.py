"""Models of the Hugging Face hub, downloaded into the hub client's own cache.

The hub client finds access tokens by itself: none is read, stored or shown here, and no error text of the client, which
may quote addresses, is passed on. Knows nothing of what the files mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

from backend.errors import HeadwayError
from backend.targets.sources import SMOLLM2, TargetSource
from backend.words import bytes_in_words

Progress = Callable[[float, str], None]  # (fraction done 0 … 1, sentence)

_SMALL_FILES: Final = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]


def download(source: TargetSource, trust_remote_code: bool, progress: Progress | None) -> Path:
    """The hub's snapshot folder; .bin files are fetched only where there is no safetensors file.

    Raises HeadwayError when the model does not exist, is gated, cannot be reached, or does not fit on the disk.
    """
    assert source.hub_id is not None
    if progress:
        progress(0.0, f"Fetching {source.hub_id} from the Hugging Face hub (large models take long)")
    small = [*_SMALL_FILES, *(["*.py"] if trust_remote_code else [])]
    try:
        _require_disk(source, [*small, "*.safetensors"])
        folder = Path(
            snapshot_download(source.hub_id, revision=source.revision, allow_patterns=[*small, "*.safetensors"])
        )
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(source.hub_id, revision=source.revision, allow_patterns=[*small, "*.bin"]))
    except HeadwayError:
        raise
    except Exception as error:  # the hub client raises its own, httpx's and the operating system's errors
        raise HeadwayError(_hub_sentence(source, error)) from error
    if not (folder / "config.json").is_file():
        raise HeadwayError(f"The hub model {source.hub_id} holds no config.json, so it cannot be a target.")
    return folder


def _snapshot(source: TargetSource, patterns: list[str]) -> Path:
    return Path(snapshot_download(source.hub_id or "", revision=source.revision, allow_patterns=patterns))


def _require_disk(source: TargetSource, patterns: list[str]) -> None:
    """Raises HeadwayError when the files still to be fetched are larger than the disk's free space."""
    try:
        files = snapshot_download(source.hub_id or "", revision=source.revision, allow_patterns=patterns, dry_run=True)
    except OSError:  # no connection: the hub's local cache may still have the model, and needs no room
        return
    needed = sum(file.file_size or 0 for file in files if file.will_download)
    cache = Path(constants.HF_HUB_CACHE)
    place = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise HeadwayError(
            f"The hub model {source.hub_id} needs {bytes_in_words(needed)} on disk, but only {bytes_in_words(free)} "
            "are free; make room or set HF_HOME to a larger disk."
        )


def _hub_sentence(source: TargetSource, error: Exception) -> str:
    name, tried = (
        source.name,
        f"a built-in name ({SMOLLM2}, tiny-llama, …), a local folder or file, and the Hugging Face hub",
    )
    if isinstance(error, GatedRepoError):
        return f"The hub model {source.hub_id} is gated: accept its terms on its page and log in."
    if isinstance(error, RevisionNotFoundError):
        return f"The hub model {source.hub_id} has no revision {source.revision}."
    if isinstance(error, RepositoryNotFoundError | HFValidationError):
        return f"There is no target {name}: tried {tried}, where it does not exist or is private."
    return f"There is no target {name}: tried {tried}, which could not be reached and has no local copy of it."
