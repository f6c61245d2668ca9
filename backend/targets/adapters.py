"""LoRA adapters of peft on a target: fetched, checked against the model, put in (active) or added to its matrices
(merged), and hashed.

An active adapter is computed beside the frozen matrices in every pass, as a server with many adapters does it; a merged
one costs nothing afterwards. Both are the same function but for rounding, so both are the same version. Knows no
drafter and no quantisation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from torch import Tensor, nn

from backend.errors import HeadwayError
from backend.targets.checkpoint import read_json
from backend.targets.sources import ADAPTER_CONFIG, AdapterSource, TargetSource, published_name

WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
_FILES: Final = ["*.json", "*.jinja", "*.txt", "*.model", *WEIGHTS]
_TOKENIZER: Final = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")
#: What of an adapter's settings decides what it computes; the rest tells how it was trained.
_SETTINGS: Final = (
    "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora", "fan_in_fan_out", "init_lora_weights",
)  # fmt: skip
_NAME: Final = "default"  # peft's own name for the only adapter


def fetch_adapter(source: AdapterSource) -> Path:
    """The adapter's folder, downloaded if it is the hub's. Raises HeadwayError when it can't be had or is no LoRA."""
    folder = source.path
    if folder is None:
        try:
            folder = Path(snapshot_download(source.hub_id or "", revision=source.revision, allow_patterns=_FILES))
        except Exception as error:  # the hub client raises its own, httpx's and the operating system's errors
            raise HeadwayError(
                f"The adapter {source.name} could not be fetched: there is no such folder or hub adapter, or the hub "
                "can't be reached."
            ) from error
    if not (folder / ADAPTER_CONFIG).is_file():
        raise HeadwayError(f"{source.name} holds no LoRA adapter: {ADAPTER_CONFIG} is not in it.")
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise HeadwayError(f"The adapter {source.name} is incomplete: {WEIGHTS[0]} is missing; fetch it again.")
    _check_kind(source, read_json(folder / ADAPTER_CONFIG))
    return folder


def brings_tokenizer(folder: Path | None) -> bool:
    """Whether an adapter is served with a tokenizer of its own, as one with new tokens is."""
    return folder is not None and any((folder / name).is_file() for name in _TOKENIZER)


def adapter_id(folder: Path | None) -> str:
    """A hash of the adapter's tensors and of the settings that decide what it computes; "none" without one."""
    if folder is None:
        return "none"
    settings = read_json(folder / ADAPTER_CONFIG)
    lines = [json.dumps([settings.get(name) for name in _SETTINGS], sort_keys=True)]
    for name, tensor in sorted(_weights(folder).items()):
        values = tensor.detach().float().contiguous().numpy().tobytes()
        lines.append(f"{name} {list(tensor.shape)} {hashlib.sha256(values).hexdigest()}")
    return f"lora-{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:32]}"


def with_adapter(model: Any, source: TargetSource, folder: Path, num_tokens: int) -> Any:
    """The model with the adapter in it, in the model's own dtype; changed in place.

    `num_tokens`: of the tokenizer that the adapter is served with; the vocabulary grows to it first. Where the adapter
    reaches the embedding or the output head these are merged even if it is active, since drafters read them.
    Raises HeadwayError when peft is missing or the adapter was trained for another model.
    """
    adapter = source.adapter
    assert adapter is not None, "called for targets with an adapter"
    try:
        from peft import LoraConfig, get_peft_model, load_peft_weights, set_peft_model_state_dict
    except ImportError:
        raise HeadwayError(
            f"The adapter {adapter.name} needs the package peft; install it with pip install 'peft>=0.21,<0.22'."
        ) from None
    settings = read_json(folder / ADAPTER_CONFIG)
    recorded = str(settings.get("base_model_name_or_path") or "")
    _check_base(source, adapter, recorded)
    if settings.get("use_dora") and source.quantisation is not None and not adapter.merged:
        raise HeadwayError(
            f"The adapter {adapter.name} is a DoRA, which reads the matrices it is added to, so they can't be rounded "
            "under it; write +merged: for it, or leave the quantisation out."
        )
    if num_tokens > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(num_tokens, mean_resizing=False)
    try:
        config = LoraConfig.from_pretrained(str(folder))
        config.inference_mode, config.base_model_name_or_path = True, None  # compared above; peft would only warn
        wrapped: Any = get_peft_model(model, config, autocast_adapter_dtype=False)
        found: Any = set_peft_model_state_dict(wrapped, load_peft_weights(str(folder), device="cpu"))
    except (ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise HeadwayError(_misfit(source, adapter, recorded)) from error
    # A wrapper of single tokens that is tied to another has nothing of its own in the file.
    missing = [name for name in found.missing_keys if f".{_NAME}" in name and ".token_adapter." not in name]
    if missing or found.unexpected_keys:
        raise HeadwayError(_misfit(source, adapter, recorded))
    changed = wrapped.get_base_model().eval()
    changed.requires_grad_(False)
    vocabulary = [changed.get_input_embeddings(), changed.get_output_embeddings()]
    fold(changed, None if adapter.merged else vocabulary)
    if adapter.merged and hasattr(changed, "peft_config"):
        del changed.peft_config  # nothing of it is left, and whoever adds low-rank matrices next starts anew
    return changed


def fold(model: nn.Module, only: Collection[nn.Module] | None = None) -> None:
    """Add the adapters of `model`, or of its modules `only`, to the matrices under them, in place."""
    done: list[str] = []
    for name, module in list(model.named_modules()):
        if not _is_adapted(module) or any(name.startswith(f"{one}.") for one in done):
            continue
        if only is None or any(module is one for one in only):
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, _folded(module))
            done.append(name)


def has_adapter(model: nn.Module) -> bool:
    """Whether an active adapter is inside."""
    return any(_is_adapted(module) for module in model.modules())


def lora_parts(layer: nn.Module) -> list[nn.Module]:
    """What of an adapted layer stays as it is, whatever is done to the matrix under it: the adapter's own small
    matrices; where it reads that matrix itself (DoRA), this too. [] for other layers.
    """
    if not hasattr(layer, "lora_A"):
        return []
    reads = bool(getattr(layer, "lora_variant", None))
    parts = [one for name, one in layer.named_children() if reads or name != "base_layer"]
    return [inner for part in parts for inner in part.modules()]


def _is_adapted(module: nn.Module) -> bool:
    """peft's layers, told by what they have: this file alone imports peft, and only where an adapter is loaded."""
    return hasattr(module, "modules_to_save") or hasattr(module, "token_adapter") or hasattr(module, "lora_A")


@torch.no_grad()
def _folded(module: Any) -> nn.Module:
    if hasattr(module, "token_adapter"):
        return _folded_layer(module.token_adapter)
    if hasattr(module, "modules_to_save"):
        saved: nn.Module = module.modules_to_save[_NAME]
        return saved
    return _folded_layer(module)


def _folded_layer(layer: Any) -> nn.Module:
    base: Any = layer.get_base_layer()
    base.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=False)  # it may be tied to another's
    layer.merge(safe_merge=True)
    folded: nn.Module = layer.get_base_layer()
    return folded


def _check_kind(source: AdapterSource, settings: dict[str, Any]) -> None:
    kind = str(settings.get("peft_type"))
    if kind != "LORA":
        raise HeadwayError(f"The adapter {source.name} is of the kind {kind}; only LoRA can be put on a target.")
    if settings.get("alora_invocation_tokens"):
        raise HeadwayError(
            f"The adapter {source.name} is switched on by certain tokens (aLoRA), so a pass depends on more than the "
            "text before it; only ordinary LoRA adapters can be put on a target."
        )
    if source.merged and settings.get("target_parameters"):
        raise HeadwayError(
            f"The adapter {source.name} changes single parameters (target_parameters), which are not merged here; "
            "write +lora: for it."
        )


def _check_base(source: TargetSource, adapter: AdapterSource, recorded: str) -> None:
    """Names that mean the same everywhere can be compared; a path on another machine can't, then the shapes decide."""
    ours, its = published_name(source.base_name), published_name(recorded)
    if ours is not None and its is not None and ours != its:
        raise HeadwayError(
            f"The adapter {adapter.name} was trained for {recorded}, but the target is {source.base_name}; choose an "
            f"adapter of this target, or correct base_model_name_or_path in its {ADAPTER_CONFIG} if both are the same."
        )


def _misfit(source: TargetSource, adapter: AdapterSource, recorded: str) -> str:
    trained = f"was trained for {recorded}" if recorded else "was trained for another model"
    return f"The adapter {adapter.name} {trained} and does not fit {source.base_name}; choose one of this target."


def _weights(folder: Path) -> dict[str, Tensor]:
    try:
        if (folder / WEIGHTS[0]).is_file():
            from safetensors.torch import load_file

            return load_file(folder / WEIGHTS[0])
        found: dict[str, Tensor] = torch.load(folder / WEIGHTS[1], map_location="cpu", weights_only=True)
        return found
    except Exception as error:  # safetensors' and pickle's own errors
        raise HeadwayError(f"The adapter {folder} is damaged: its weights can't be read; fetch it again.") from error
