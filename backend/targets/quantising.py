"""A target's matrices in fewer bits, rounded when it is loaded: torchao's int8 on a CPU, bitsandbytes on CUDA.

A token's logits must not depend on what stands beside it in a pass, or a draft tree could not be checked against plain
text. So int8 rounds weights only: torch's own dynamic int8 also rounds the states, with one scale for all rows of a
pass. bitsandbytes' 8 bits round each state by itself, which will do; its outlier columns, found over all rows together,
are left out. Embedding and output head stay as they are; drafters read them. Knows models, no drafter.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import PreTrainedModel

from backend.errors import HeadwayError
from backend.targets.adapters import lora_parts
from backend.targets.memory import MemoryEstimate
from backend.targets.sources import Quantisation, TargetSource

#: Where tools/setup_env.py puts torchao; see requirements-int8.txt.
BESIDE: Final = Path(sys.prefix) / "beside"
#: Names in a version's identity.
NAMES: Final = {
    Quantisation.INT8: "torchao-int8",
    Quantisation.BNB8: "bitsandbytes-8bit",
    Quantisation.BNB4: "bitsandbytes-nf4",
}
_BITS: Final = {Quantisation.BNB8: 8, Quantisation.BNB4: 4.5}  # with the scales of blocks


def quantisation_name(source: TargetSource) -> str | None:
    """The quantisation asked for, as it stands in the identity; None when none is.

    An adapter that is merged first is rounded with the matrices, an active one is not: these are two versions.
    """
    if source.quantisation is None:
        return None
    merged = source.adapter is not None and source.adapter.merged
    return NAMES[source.quantisation] + ("-merged" if merged else "")


def check_quantisation(source: TargetSource, config: Any, device: torch.device) -> None:
    """Raises HeadwayError for a quantisation that this device, this model or this installation can't have."""
    wanted = source.quantisation
    if wanted is None:
        return
    if getattr(config, "quantization_config", None) is not None:
        raise HeadwayError(f"The target {source.base_name} is quantised already; leave +{wanted} out.")
    if wanted is Quantisation.INT8:
        if device.type != "cpu":
            raise HeadwayError(f"+int8 is for the CPU and the target goes to {device}; write +bnb8, or choose the CPU.")
        look_beside()
        _need("torchao", wanted, f"pip install --no-deps --target {BESIDE} 'torchao>=0.18,<0.19'")
    else:
        if device.type != "cuda":
            raise HeadwayError(f"+{wanted} needs a CUDA device and the target goes to {device}; write +int8 on a CPU.")
        _need("bitsandbytes", wanted, "pip install 'bitsandbytes>=0.50'")


def bitsandbytes_config(source: TargetSource, dtype: torch.dtype) -> Any:
    """What transformers is told while it loads; None for other targets."""
    if source.quantisation not in _BITS:
        return None
    from transformers import BitsAndBytesConfig

    if source.quantisation is Quantisation.BNB8:
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)  # 0: no outlier columns
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def reloaded(model: PreTrainedModel, load: Callable[[Path], PreTrainedModel]) -> PreTrainedModel:
    """The model written to a folder that is removed again and loaded from there by `load`: bitsandbytes rounds while it
    loads, so what was changed in memory takes this way.
    """
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        model.save_pretrained(folder)
        return load(Path(folder))


def round_to_int8(model: nn.Module, source: TargetSource) -> None:
    """Every linear layer's weight as int8 with one scale an output channel, in place; torchao's weight-only int8.

    The output head and an active adapter's own matrices stay. Raises HeadwayError when there is nothing to round.
    """
    Int8WeightOnlyConfig, quantize_ = _torchao()
    head: nn.Module = model.get_output_embeddings()  # type: ignore[operator]
    inside = {id(one) for layer in model.modules() for one in lora_parts(layer)}
    found = [one for one in model.modules() if type(one) is nn.Linear and one is not head and id(one) not in inside]
    if not found:
        raise HeadwayError(f"The target {source.base_name} has no linear layers that +int8 could round; leave it out.")
    chosen = {id(one) for one in found}
    quantize_(model, Int8WeightOnlyConfig(set_inductor_config=False), filter_fn=lambda module, _: id(module) in chosen)


def quantised_memory(memory: MemoryEstimate, source: TargetSource, config: Any, dtype: torch.dtype) -> MemoryEstimate:
    """The estimate with matrices of fewer bits; embedding and output head keep theirs."""
    bits = _BITS.get(source.quantisation) if source.quantisation is not None else None
    if bits is None:
        return memory
    text = config.get_text_config(decoder=True)
    outer = (1 if getattr(config, "tie_word_embeddings", False) else 2) * text.vocab_size * text.hidden_size
    inner = max(0, memory.num_weights - outer)
    return replace(memory, weights_bytes=int(min(outer, memory.num_weights) * dtype.itemsize + inner * bits / 8))


def held_bytes(model: nn.Module) -> int:
    """Bytes of a model's parameters as they are kept, those of torchao's int8 matrices included."""
    total = 0
    for weight in model.parameters():
        parts = [getattr(weight, name, None) for name in ("qdata", "scale")]
        kept = [part for part in parts if isinstance(part, torch.Tensor)] or [weight]
        total += sum(part.numel() * part.element_size() for part in kept)
    return total


def look_beside() -> None:
    """Make torchao importable where the set-up put it; one that is installed in the environment itself comes first."""
    if importlib.util.find_spec("torchao") is None and BESIDE.is_dir() and str(BESIDE) not in sys.path:
        sys.path.append(str(BESIDE))


def _torchao() -> tuple[Any, Any]:
    """(Int8WeightOnlyConfig, quantize_). While it is imported it tells of kernels for cards that are not there."""
    look_beside()
    loggers = [logging.getLogger(name) for name in ("torchao", "torch.utils._pytree")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
    return Int8WeightOnlyConfig, quantize_


def _need(package: str, wanted: Quantisation, install: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise HeadwayError(f"+{wanted} needs the package {package}; install it with {install}.")
