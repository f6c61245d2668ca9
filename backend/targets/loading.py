"""From what the user typed to a loaded model and tokenizer, on a device and in a dtype chosen for it or by the user.

Fetches (hub), converts (GGUF) or builds (tiny) the target, estimates its memory first, and refuses what is no whole
causal language model with one sentence. It sets no attention implementation, packs no weights and runs no pass;
target.py does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.checkpoint import weight_files
from backend.targets.gguf import convert_gguf, quiet_bars
from backend.targets.hub import download
from backend.targets.memory import MemoryEstimate, estimate_folder, estimate_model, require_room
from backend.targets.sources import SourceKind, TargetSource, resolve_source
from backend.targets.tiny import tiny_model, tiny_tokenizer

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

    `folder`: the Hugging Face folder the weights came from; None for tiny random targets.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    source: TargetSource
    device: torch.device
    dtype: torch.dtype
    folder: Path | None
    memory: MemoryEstimate


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
    if found.kind is SourceKind.TINY:
        return _load_tiny(found, place, number, report, context)
    folder = fetch_folder(found, trust_remote_code, lambda f, sentence: report(0.6 * f, sentence), settings)
    config = _causal_config(found, folder, trust_remote_code)
    memory = estimate_folder(folder, config, number)
    if context is None:
        require_room(found.name, memory.weights_bytes, place)
    else:
        what = f"its weights and a text of {context} tokens"
        require_room(found.name, memory.total_bytes(context), place, what=what)
    report(0.6, f"Loading {found.name}: {memory.sentence(context)}")
    tokenizer = _load_tokenizer(found, folder, trust_remote_code)
    model = _load_weights(found, folder, number, trust_remote_code)
    _check_vocabulary(found, model, tokenizer)
    report(0.9, f"Moving {found.name} to {place}")
    _to_device(found, model, place)
    report(1.0, f"Loaded {found.name}: {memory.sentence(context)}")
    return LoadedModel(model, tokenizer, found, place, number, folder, memory)


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
    return estimate_folder(folder, _causal_config(found, folder, trust_remote_code), number)


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
    source: TargetSource, device: torch.device, dtype: torch.dtype, report: Progress, context: int | None
) -> LoadedModel:
    model = tiny_model(source.tiny_kind or "", source.seed)
    torch.nn.Module.to(model, dtype)
    memory = estimate_model(model, model.config, dtype)
    report(1.0, f"Built {source.name}: {memory.sentence(context)}")
    return LoadedModel(_to_device(source, model, device), tiny_tokenizer(), source, device, dtype, None, memory)


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


def _load_tokenizer(source: TargetSource, folder: Path, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # each tokenizer family fails in its own way when files are missing or damaged
        raise HeadwayError(
            f"The target {source.name} has no readable tokenizer: put its tokenizer.json and tokenizer_config.json "
            "beside the weights."
        ) from error
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def _load_weights(source: TargetSource, folder: Path, dtype: torch.dtype, trust_remote_code: bool) -> PreTrainedModel:
    """The model on the CPU. transformers fills missing tensors with random numbers: here that is an error."""
    damaged = f"The checkpoint of {source.name} is damaged or incomplete"
    if not weight_files(folder) and not any(folder.glob("*.bin")):
        raise HeadwayError(f"{damaged}: there are no weight files (model.safetensors) in {folder}.")
    try:
        with quiet_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, trust_remote_code=trust_remote_code, output_loading_info=True
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
    try:
        torch.nn.Module.to(model, device)
    except torch.OutOfMemoryError as error:
        raise HeadwayError(f"The target {source.name} does not fit in the memory of {device}.") from error
    return model
