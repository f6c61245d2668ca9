"""MTP modules for vLLM: inside their target's checkpoint, which is written whole in MiMo's layout.

vLLM runs such modules only for model types that have them by nature. Of those MiMo's module is ours: a Llama layer
behind a joining matrix. Its target is a Qwen2, and a Llama is a Qwen2 whose biases are zero, so both can be written
that way. vLLM blanks the token of the text's first place in the module, which Headway reads; nothing else differs.
Knows no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.mtp.config import MtpConfig
from backend.errors import HeadwayError
from backend.formats.own import Own, sizes_of_layer
from backend.formats.parts import ExportOptions, Parts
from backend.formats.tables import mimo_rows

TYPES: Final = ("llama", "qwen2")
SENTENCE: Final = (
    "vLLM runs MTP modules only inside checkpoints of types that have them by nature; Headway writes targets of the "
    "types llama and qwen2 in such a form (MiMo's), and {}; train an EAGLE head for this target instead."
)
NOTES: Final = (
    "The folder is the whole target with the module inside: serve it in place of the target.",
    "vLLM leaves the token of the text's first place out of what the module reads, so drafts may differ a little from "
    "Headway's.",
)


def mtp_parts(own: Own, options: ExportOptions, depth: int, config: Any, state: Mapping[str, Tensor]) -> Parts:
    """config and state: of the target, as transformers has them. Raises HeadwayError for modules and targets that do
    not fit.
    """
    if options.engine != "vllm":
        raise HeadwayError("MTP modules are exported for vllm only; train an EAGLE head for SGLang.")
    refuse(own.config, depth, config)
    tensors = target_tensors(config, state) | module_tensors(own)
    notes = list(NOTES)
    if own.config.output_size < own.config.vocab_size:
        notes.append(f"Headway scores {own.config.output_size} tokens, vLLM the whole vocabulary.")
    return Parts(target_config(config), tensors, notes)


def refuse(module: MtpConfig, depth: int, config: Any) -> None:
    """Raises HeadwayError for what MiMo's layout can't hold."""
    kind = str(getattr(config, "model_type", ""))
    if kind not in TYPES:
        raise HeadwayError(SENTENCE.format(f"this target is of the type {kind}"))
    if getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False):
        raise HeadwayError(SENTENCE.format("this llama has biases of its own"))
    heads = int(config.num_attention_heads)
    if module.layer.head_dim * heads != int(config.hidden_size):
        raise HeadwayError(SENTENCE.format("its heads are not as wide as hidden size / heads"))
    if module.form != "shared" or module.qk_norm or module.rotary_dim is not None:
        raise HeadwayError("MiMo's layout holds one plain module for all depths (form shared), which these are not.")
    if depth > 1 and not module.recycle_normed:
        raise HeadwayError(
            "vLLM hands the module's state on after its norm, and this one was trained to hand it on before "
            "(recycle_normed is off); export it with --num-tokens 1, or train one with recycle_normed."
        )


def module_tensors(own: Own) -> dict[str, Tensor]:
    config: MtpConfig = own.config
    flags = frozenset({"attention_bias"})
    sizes = sizes_of_layer(config.layer, config.vocab_size, config.vocab_size, flags=flags)
    found = {}
    for row in mimo_rows(sizes):
        found[row.name] = own.state.get(row.own, torch.zeros(row.shape))  # biases that ours may lack
        if row.own.endswith("proj.weight") and ".layer." not in row.own and config.order == "embedding_first":
            words, states = found[row.name].chunk(2, dim=1)
            found[row.name] = torch.cat([states, words], dim=1)  # MiMo joins the state first
    return found


def target_tensors(config: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The target's own, with zero biases where a Qwen2 has them, and an output head of its own."""
    found = dict(state)
    for layer in range(int(config.num_hidden_layers)):
        for one in "qkv":
            name = f"model.layers.{layer}.self_attn.{one}_proj."
            found.setdefault(name + "bias", torch.zeros(found[name + "weight"].shape[0]))
    found.setdefault("lm_head.weight", found["model.embed_tokens.weight"])
    return found


def target_config(config: Any) -> dict[str, Any]:
    """As a MiMo: a Qwen2 with modules behind it."""
    written: dict[str, Any] = dict(config.to_dict())
    for key in ("quantization_config", "_name_or_path", "transformers_version", "attention_bias", "mlp_bias"):
        written.pop(key, None)
    rope = written.get("rope_parameters") or {}
    if "rope_theta" in rope:
        written["rope_theta"] = rope["rope_theta"]
    return written | {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "num_nextn_predict_layers": 1,
        "tie_word_embeddings": False,
        "use_sliding_window": bool(written.get("use_sliding_window", False)),
    }
