"""What a target is, without loading its weights into a model: its identity, size and family; and where it lies now.

Reads files (fetched or converted first where they must be). Knows no store and no drafter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.adapters import adapter_id, brings_tokenizer, fetch_adapter
from backend.targets.checkpoint import stored_tensors
from backend.targets.identity import (
    VersionIdentity,
    quantisation_of,
    template_id,
    tokenizer_id,
    weights_id_of_folder,
    weights_id_of_state,
)
from backend.targets.loading import fetch_folder
from backend.targets.quantising import quantisation_name
from backend.targets.sources import SourceKind, resolve_source
from backend.targets.tiny import tiny_model, tiny_tokenizer
from backend.targets.tokenizer import read_tokenizer


@dataclass(frozen=True)
class Described:
    """A target at a place. `folder`: the Hugging Face folder behind it; None for tiny random ones. `adapter_folder`: of
    its adapter, None without one.
    """

    source: str
    identity: VersionIdentity
    model_type: str
    num_parameters: int
    folder: Path | None
    tokenizer: Any
    adapter_folder: Path | None = None


def describe(source: str, settings: Settings, trust_remote_code: bool = False) -> Described:
    """The target called `source`. Raises HeadwayError for an unknown name or files that can't be read."""
    found = resolve_source(source)
    adapter = fetch_adapter(found.adapter) if found.adapter is not None else None
    own = adapter if adapter is not None and brings_tokenizer(adapter) else None
    tokenizer: Any
    if found.kind is SourceKind.TINY:
        model = tiny_model(found.tiny_kind or "", found.seed)
        tokenizer = tiny_tokenizer() if own is None else read_tokenizer(found.name, own)
        weights = weights_id_of_state(model.state_dict())
        config, folder = model.config, None
        parameters = sum(value.numel() for value in model.parameters())
    else:
        folder = fetch_folder(found, trust_remote_code, None, settings)
        tokenizer = read_tokenizer(found.name, own or folder, trust_remote_code)
        config = _config(found.name, folder, trust_remote_code)
        weights = weights_id_of_folder(folder, settings.cache)
        parameters = sum(tensor.numel for tensor in stored_tensors(folder))
    identity = VersionIdentity(
        weights_id=weights,
        adapter_id=adapter_id(adapter),
        quantisation=quantisation_name(found) or quantisation_of(config),
        tokenizer_id=tokenizer_id(tokenizer),
        template_id=template_id(tokenizer),
        name=found.name,
    )
    return Described(found.name, identity, str(config.model_type), parameters, folder, tokenizer, adapter)


def moved_to(
    identity: VersionIdentity, places: Iterable[Path], settings: Settings, behind: str = ""
) -> Path | None:
    """The folder among `places` that holds this version, by the hash of its weights; None if none does. `behind`: what
    stands behind its name, such as "+int8".
    """
    for place in places:
        if not (place / "config.json").is_file():
            continue
        try:
            if describe(f"{place}{behind}", settings).identity == identity:
                return place
        except HeadwayError:  # something else that lies there
            continue
    return None


def _config(name: str, folder: Path, trust_remote_code: bool) -> Any:
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # a family this transformers does not know, or damaged JSON
        raise HeadwayError(f"The config.json of {name} can't be read; fetch the target again.") from error
