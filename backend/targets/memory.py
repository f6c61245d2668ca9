"""How much memory a target will need, worked out from its files before anything is loaded, and how much there is.

Counts weights, the KV cache and the widest pass; the allocator's slack comes on top. Knows no trees and no
drafters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch

from backend.errors import HeadwayError
from backend.targets.checkpoint import stored_tensors
from backend.words import bytes_in_words, count_in_words

if TYPE_CHECKING:
    from backend.targets.target import Target

PASS_ROWS = 512  #: rows of the widest pass: a chunk of a prompt
LOGIT_ROWS = 64  #: rows that logits are computed for at once: a large tree


@dataclass(frozen=True)
class MemoryEstimate:
    """`num_weights`: parameters. `weights_bytes`: in the dtype to load in. `kv_bytes_per_token`: of one sequence.
    `pass_bytes`: what one pass needs while it runs.
    """

    num_weights: int
    weights_bytes: int
    kv_bytes_per_token: int
    pass_bytes: int

    def total_bytes(self, context: int, batch: int = 1) -> int:
        """Weights, the KV cache of `batch` sequences of `context` tokens, and room for a pass."""
        return self.weights_bytes + self.kv_bytes_per_token * context * batch + self.pass_bytes

    def sentence(self, context: int | None = None) -> str:
        """For showing, such as "134.5 million weights, about 601 MB in all: 538 MB of weights, 18.4 MB of cache for
        200 tokens, 44.3 MB for a pass"; without a context the cache is told a token.
        """
        weights = f"{count_in_words(self.num_weights)} weights"
        if context is None:
            sizes = f"{bytes_in_words(self.weights_bytes)}, and {bytes_in_words(self.kv_bytes_per_token)}"
            return f"{weights}, {sizes} of cache a token"
        return (
            f"{weights}, about {bytes_in_words(self.total_bytes(context))} in all: "
            f"{bytes_in_words(self.weights_bytes)} of weights, "
            f"{bytes_in_words(self.kv_bytes_per_token * context)} of cache for {context} tokens, "
            f"{bytes_in_words(self.pass_bytes)} for a pass"
        )


def estimate_folder(folder: Path, config: Any, dtype: torch.dtype) -> MemoryEstimate:
    """Estimate for a Hugging Face folder, from the safetensors headers; older .bin checkpoints count by file size.

    `config` is the folder's transformers configuration. A checkpoint that stores quantised weights keeps its own size.
    """
    tensors = stored_tensors(folder)
    if not tensors:
        stored = sum(file.stat().st_size for file in folder.glob("*.bin"))
        numel = stored // max(1, torch.empty(0, dtype=_stored_dtype(config)).element_size())
        return _estimate(numel, numel * dtype.itemsize, config, dtype)
    numel = sum(tensor.numel for tensor in tensors)
    size = sum(tensor.numel * dtype.itemsize for tensor in tensors)
    if getattr(config, "quantization_config", None) is not None:
        size = sum(tensor.num_bytes for tensor in tensors)
    return _estimate(numel, size, config, dtype)


def estimate_model(model: torch.nn.Module, config: Any, dtype: torch.dtype) -> MemoryEstimate:
    """Estimate for a model that exists already (tiny targets): shared tensors count once."""
    numel = sum(parameter.numel() for parameter in model.parameters())
    return _estimate(numel, numel * dtype.itemsize, config, dtype)


def _estimate(num_weights: int, weights_bytes: int, config: Any, dtype: torch.dtype) -> MemoryEstimate:
    return MemoryEstimate(num_weights, weights_bytes, kv_bytes_per_token(config, dtype), pass_bytes(config, dtype))


def pass_bytes(config: Any, dtype: torch.dtype) -> int:
    """Bytes that live at once at the peak of a pass, roughly: six states and three inner activations a row of a prompt
    chunk, or the logits of a tree in float32 with two copies that a rule makes of them, whichever is more.
    """
    text = config.get_text_config(decoder=True)
    hidden = getattr(text, "hidden_size", None) or 0
    inner = getattr(text, "intermediate_size", None) or 4 * hidden
    vocab = getattr(text, "vocab_size", None) or 0
    return int(max(PASS_ROWS * (6 * hidden + 3 * inner) * dtype.itemsize, LOGIT_ROWS * 3 * vocab * 4))


def kv_bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Bytes of keys and values that one token of one sequence adds over all layers; 0 for models without attention.

    Latent attention (DeepSeek) caches the compressed latent and the rotary key, Falcon's newer design all heads.
    """
    text = config.get_text_config(decoder=True)
    layers = getattr(text, "num_hidden_layers", None) or 0
    heads = getattr(text, "num_attention_heads", None)
    if not heads:
        return 0
    if getattr(text, "kv_lora_rank", None):
        return int(layers * (text.kv_lora_rank + text.qk_rope_head_dim) * dtype.itemsize)
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    if getattr(text, "multi_query", False) and not getattr(text, "new_decoder_architecture", False):
        kv_heads = 1
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return int(layers * 2 * kv_heads * head_dim * dtype.itemsize)


def available_bytes(device: torch.device) -> int:
    """Memory that can be taken on the device now: free GPU memory, else the machine's available memory."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def require_room(
    name: str, needed: int, device: torch.device, available: int | None = None, what: str = "its weights"
) -> None:
    """Raises HeadwayError when `needed` bytes, for `what`, clearly do not fit on the device."""
    free = available_bytes(device) if available is None else available
    if needed > free:
        raise HeadwayError(
            f"The target {name} needs {bytes_in_words(needed)} for {what}, but only {bytes_in_words(free)} are "
            f"free on {device}: choose a smaller model, bfloat16, or another device."
        )


def _stored_dtype(config: Any) -> torch.dtype:
    dtype = getattr(config, "dtype", None)
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def model_sizes(target: Target) -> dict[str, float] | None:
    """What decides the time of a pass, by the names of analysis.theory.ModelSize; None where weights are held rounded,
    since how many bytes of them are read then depends on the kernels.
    """
    text = target.config
    heads = getattr(text, "num_attention_heads", None)
    if target.identity.quantisation != "none" or not heads:
        return None
    width = getattr(text, "head_dim", None) or target.hidden_size // heads
    tied = target.lm_head_weight().data_ptr() == target.embedding_weight().data_ptr()
    looked_up = 0 if tied else target.embedding_weight().numel()  # of these a pass reads a row a token
    return {
        "parameters": float(target.num_parameters - looked_up),
        "cache_values": kv_bytes_per_token(target.model.config, target.dtype) / target.dtype.itemsize,
        "attention_width": float(target.num_layers * heads * width),
        "bytes_per_weight": float(target.dtype.itemsize),
        "bytes_per_cache_value": float(target.dtype.itemsize),
    }
