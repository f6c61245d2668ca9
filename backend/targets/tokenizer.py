"""A target's tokenizer without its weights: for looking at templates, masks and token ids. Fetches no weight file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from huggingface_hub import snapshot_download
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.adapters import brings_tokenizer, fetch_adapter
from backend.targets.gguf import convert_gguf
from backend.targets.sources import SourceKind, TargetSource, resolve_source
from backend.targets.tiny import tiny_tokenizer

_FILES: Final = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]


def load_tokenizer(target: str, settings: Settings, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer, chat template included, of the target called `target`.

    A GGUF file is converted first, once, as it is for loading. Raises HeadwayError when there is no such target or its
    tokenizer cannot be read.
    """
    found = resolve_source(target)
    adapter = fetch_adapter(found.adapter) if found.adapter is not None else None
    if adapter is not None and brings_tokenizer(adapter):
        return read_tokenizer(found.name, adapter, trust_remote_code)
    if found.kind is SourceKind.TINY:
        return tiny_tokenizer()
    return read_tokenizer(found.name, _folder(found, settings), trust_remote_code)


def read_tokenizer(name: str, folder: Path, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder of the target called `name`. Raises HeadwayError when it cannot be read."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # each tokenizer family fails in its own way when files are missing or damaged
        raise HeadwayError(
            f"The target {name} has no readable tokenizer: put its tokenizer.json and tokenizer_config.json "
            "beside the weights."
        ) from error
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def _folder(source: TargetSource, settings: Settings) -> Path:
    if source.kind is SourceKind.FOLDER:
        assert source.path is not None
        return source.path
    if source.kind is SourceKind.GGUF:
        assert source.path is not None
        return convert_gguf(source.path, settings.cache)
    try:
        return Path(snapshot_download(source.hub_id or "", revision=source.revision, allow_patterns=_FILES))
    except Exception as error:  # the hub client raises its own, httpx's and the operating system's errors
        raise HeadwayError(
            f"The tokenizer of {source.name} could not be fetched: there is no such target, or the hub can't be "
            "reached."
        ) from error
