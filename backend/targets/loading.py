"""From what the user typed to a loaded model and tokenizer, on a device and in a dtype chosen for it or by the user.

Fetches (hub), converts (GGUF) or builds (tiny) the target, estimates its memory first, puts its adapter in and rounds
its matrices where that is asked for, and refuses what is no whole causal language model with one sentence. It sets no
attention implementation, packs no weights and runs no pass; target.py does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.adapters import brings_tokenizer, fetch_adapter, with_adapter
from backend.targets.checkpoint import weight_files
from backend.targets.gguf import convert_gguf, quiet_bars
from backend.targets.hub import download
from backend.targets.memory import MemoryEstimate, estimate_folder, estimate_model, require_room
from backend.targets.quantising import (
    bitsandbytes_config,
    check_quantisation,
    held_bytes,
    quantised_memory,
    reloaded,
    round_to_int8,
)
from backend.targets.sources import Quantisation, SourceKind, TargetSource, resolve_source
from backend.targets.tiny import tiny_model, tiny_tokenizer
from backend.targets.tokenizer import read_tokenizer

Progress = Callable[[float, str], None]  # (fraction done 0 … 1, sentence)

DTYPES: Final = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode, its tokenizer and how it was loaded.

    `folder`: the Hugging Face folder the weights came from; None for tiny random targets. `adapter_folder`: where the
    adapter lies, None without one.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    source: TargetSource
    device: torch.device
    dtype: torch.dtype
    folder: Path | None
    memory: MemoryEstimate
    adapter_folder: Path | None = None


def load_model(
    source: str | TargetSource,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
    context: int | None = None,
) -> LoadedModel:
    """Loads a target. Device None: CUDA, else Apple's MPS, else the CPU; dtype None: bfloat16 on CUDA, else float32.

    `progress` receives (fraction, sentence). `context`: tokens that room is wanted for; memory is then told and checked
    in all instead of a token. Code that comes with a model runs only with `trust_remote_code`.
    Raises HeadwayError for anything the user can mend: unknown name, damaged or incomplete checkpoint, no tokenizer, a
    model that is not a causal language model, too little memory.
    """
    found = resolve_source(source) if isinstance(source, str) else source
    place = choose_device(device)
    number = choose_dtype(dtype, place)
    report = progress or (lambda fraction, sentence: None)
    report(0.0, f"Looking for {found.name}")
    adapter = fetch_adapter(found.adapter) if found.adapter is not None else None
    if found.kind is SourceKind.TINY:
        return _load_tiny(found, place, number, report, context, adapter)
    folder = fetch_folder(found, trust_remote_code, lambda f, sentence: report(0.6 * f, sentence), settings)
    config = _causal_config(found, folder, trust_remote_code)
    check_quantisation(found, config, place)
    memory = quantised_memory(estimate_folder(folder, config, number), found, config, number)
    if context is None:
        require_room(found.name, memory.weights_bytes, place)
    else:
        what = f"its weights and a text of {context} tokens"
        require_room(found.name, memory.total_bytes(context), place, what=what)
    report(0.6, f"Loading {found.name}: {memory.sentence(context)}")
    beside = adapter if adapter is not None and brings_tokenizer(adapter) else folder
    tokenizer = read_tokenizer(found.name, beside, trust_remote_code)

    def load(written: Path | None, rounded: bool) -> PreTrainedModel:
        return _load_weights(found, written or folder, number, trust_remote_code, place if rounded else None)

    model = _configured(found, adapter, tokenizer, load)
    _check_vocabulary(found, model, tokenizer)
    report(0.9, f"Moving {found.name} to {place}")
    _to_device(found, model, place)
    if found.quantisation is not None:
        memory = replace(memory, weights_bytes=held_bytes(model))
    report(1.0, f"Loaded {found.name}: {memory.sentence(context)}")
    return LoadedModel(model, tokenizer, found, place, number, folder, memory, adapter)


def estimate_memory(
    source: str | TargetSource,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
    settings: Settings | None = None,
) -> MemoryEstimate:
    """What `load_model` would need, without loading weights; downloads a hub model and converts a GGUF file for it."""
    found = resolve_source(source) if isinstance(source, str) else source
    number = choose_dtype(dtype, choose_device(device))
    if found.kind is SourceKind.TINY:
        model = tiny_model(found.tiny_kind or "", found.seed)
        return estimate_model(model, model.config, number)
    folder = fetch_folder(found, trust_remote_code, None, settings)
    config = _causal_config(found, folder, trust_remote_code)
    return quantised_memory(estimate_folder(folder, config, number), found, config, number)


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The device asked for, or the best one found. Raises HeadwayError for one that this machine does not have."""
    if device is None or device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise HeadwayError(f"There is no device {device!r}; use auto, cpu, cuda, cuda:1 or mps.") from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    missing = place.type == "cuda" and (place.index or 0) >= count
    if missing or (place.type == "mps" and not torch.backends.mps.is_available()):
        raise HeadwayError(f"The device {place} is not on this machine; use auto or cpu.")
    if place.type not in ("cpu", "cuda", "mps"):
        raise HeadwayError(f"The device {place} is not supported; use auto, cpu, cuda or mps.")
    return place


def choose_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """The dtype asked for, or bfloat16 on CUDA (float16 where the card lacks it) and float32 elsewhere."""
    if dtype is None or dtype == "auto":
        if device.type != "cuda":
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    known = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if known not in DTYPES.values() or known is None:
        raise HeadwayError(f"The dtype {dtype} is not supported; use auto, float32, bfloat16 or float16.")
    return known


def fetch_folder(
    source: TargetSource, trust_remote_code: bool, progress: Progress | None, settings: Settings | None
) -> Path:
    """The local Hugging Face folder of a source: itself, the converted GGUF file, or the downloaded hub snapshot."""
    if source.kind is SourceKind.FOLDER:
        assert source.path is not None
        return source.path
    if source.kind is SourceKind.GGUF:
        assert source.path is not None
        require_room(source.name, source.path.stat().st_size, torch.device("cpu"))  # it only grows by de-quantising
        return convert_gguf(source.path, (settings or Settings.from_environ()).cache, progress)
    return download(source, trust_remote_code, progress)


def _load_tiny(
    source: TargetSource,
    device: torch.device,
    dtype: torch.dtype,
    report: Progress,
    context: int | None,
    adapter: Path | None,
) -> LoadedModel:
    made = tiny_model(source.tiny_kind or "", source.seed)
    check_quantisation(source, made.config, device)
    torch.nn.Module.to(made, dtype)
    tokenizer: PreTrainedTokenizerBase = tiny_tokenizer()
    if adapter is not None and brings_tokenizer(adapter):
        tokenizer = read_tokenizer(source.name, adapter)

    def load(written: Path | None, rounded: bool) -> PreTrainedModel:
        if written is not None:
            return _load_weights(source, written, dtype, False, device if rounded else None)
        return reloaded(made, lambda folder: load(folder, True)) if rounded else made

    model = _configured(source, adapter, tokenizer, load)
    memory = estimate_model(model, model.config, dtype)
    if source.quantisation is not None:
        memory = replace(memory, weights_bytes=held_bytes(model))
    report(1.0, f"Built {source.name}: {memory.sentence(context)}")
    return LoadedModel(_to_device(source, model, device), tokenizer, source, device, dtype, None, memory, adapter)


def _configured(
    source: TargetSource,
    adapter: Path | None,
    tokenizer: PreTrainedTokenizerBase,
    load: Callable[[Path | None, bool], PreTrainedModel],
) -> PreTrainedModel:
    """The model as it is served. `load(folder, rounded)` gives it from its own place (None) or another, whole or
    rounded by bitsandbytes.

    Under an active adapter the frozen matrices are rounded; a merged one is rounded together with them.
    """
    merged = source.adapter is not None and source.adapter.merged
    model = load(None, source.needs_cuda and not merged)
    if adapter is not None:
        model = with_adapter(model, source, adapter, len(tokenizer))
    if source.needs_cuda and merged:
        return reloaded(model, lambda written: load(written, True))
    if source.quantisation is Quantisation.INT8:
        round_to_int8(model, source)
    return model


def _causal_config(source: TargetSource, folder: Path, trust_remote_code: bool) -> Any:
    """The configuration, if it is one of a decoder-only causal language model; HeadwayError otherwise."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # damaged JSON, unknown family, code that is not trusted
        raise HeadwayError(_config_sentence(source, error)) from error
    architectures = getattr(config, "architectures", None) or []
    own_code = "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    mapped = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    causal = own_code or any(name == mapped or name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)
    if getattr(config, "is_encoder_decoder", False) or not (causal or (mapped and not architectures)):
        what = architectures[0] if architectures else config.model_type
        raise HeadwayError(
            f"The target {source.name} is not a causal language model (it is {what}): only decoder models that predict "
            "the next token can be targets."
        )
    return config


def _config_sentence(source: TargetSource, error: Exception) -> str:
    text = str(error)
    if "trust_remote_code" in text:
        return (
            f"The target {source.name} needs Python code of its own; if you trust its author, allow it with "
            "trust_remote_code (--trust-remote-code)."
        )
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return f"The target {source.name} has a config.json of a family that the installed transformers does not know."
    return f"The target {source.name} is damaged: its config.json cannot be read."


def _load_weights(
    source: TargetSource, folder: Path, dtype: torch.dtype, trust_remote_code: bool, rounded_on: torch.device | None
) -> PreTrainedModel:
    """The model on the CPU, or on `rounded_on` by bitsandbytes. transformers fills missing tensors with random numbers:
    here that is an error.
    """
    damaged = f"The checkpoint of {source.name} is damaged or incomplete"
    if not weight_files(folder) and not any(folder.glob("*.bin")):
        raise HeadwayError(f"{damaged}: there are no weight files (model.safetensors) in {folder}.")
    more: dict[str, Any] = {}
    if rounded_on is not None:
        more = {"quantization_config": bitsandbytes_config(source, dtype), "device_map": {"": rounded_on}}
    try:
        with quiet_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, trust_remote_code=trust_remote_code, output_loading_info=True, **more
            )
            model, info = loaded
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise HeadwayError(f"The target {source.name} did not fit in memory; choose a smaller one.") from error
    except Exception as error:  # safetensors', torch's and transformers' errors; the cause stays attached for logs
        raise HeadwayError(f"{damaged}, or needs something that is not installed; fetch it again.") from error
    missing = sorted(info["missing_keys"]) or sorted(str(key) for key in info["mismatched_keys"])
    if missing or info["error_msgs"]:
        first = f" ({missing[0]} and {len(missing) - 1} others)" if missing else ""
        raise HeadwayError(f"{damaged}: {len(missing)} tensors are missing or of another shape{first}; fetch it again.")
    assert isinstance(model, PreTrainedModel)
    model.eval()
    return model


def _check_vocabulary(source: TargetSource, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    embedding: Any = model.get_input_embeddings()
    rows = embedding.weight.shape[0]
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= rows:
        raise HeadwayError(
            f"The tokenizer of {source.name} does not belong to its weights: it has a token {largest}, but the model "
            f"knows only {rows} tokens."
        )


def _to_device(source: TargetSource, model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    if source.needs_cuda:  # bitsandbytes has put it there
        return model
    try:
        torch.nn.Module.to(model, device)
    except torch.OutOfMemoryError as error:
        raise HeadwayError(f"The target {source.name} does not fit in the memory of {device}.") from error
    return model
