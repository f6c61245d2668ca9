"""MTP modules that came with a published checkpoint, read from its own tensor names.

Three layouts are known: DeepSeek's (further layers behind the last one), Qwen3-Next's (`mtp.`) and MiMo's
(`model.mtp_layers.`). They differ in names, in which half of the joined input is the token, and in whether the state
handed on is normed. Embedding and output head are the target's; copies in the checkpoint are compared with them.

Only layers of Llama's kind are read: latent attention, gated attention and mixtures of experts are refused. Knows no
drafting and no training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from torch import Tensor

from backend.drafters.layer.starting import layer_like
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel
from backend.errors import HeadwayError
from backend.targets.checkpoint import StoredTensor, stored_tensors
from backend.targets.target import Target

#: a decoder layer's names, the same in all layouts -> ours
_LAYER: Final = {
    **{f"self_attn.{one}": f"layer.{one}" for one in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")},
    **{f"mlp.{one}": f"layer.{one}" for one in ("gate_proj", "up_proj", "down_proj")},
    "input_layernorm": "input_layernorm",
    "post_attention_layernorm": "layer.post_attention_layernorm",
}


@dataclass(frozen=True)
class Layout:
    """How one family of checkpoints names and wires its modules.

    Args:
        module: matches a tensor's name; its groups are the module's number ("" is 0) and the rest of the name.
        names: the rest of the name, without `.weight`, -> ours.
        copies: rest of the name of copies of the target's own -> "embedding" or "head".
        zero_centred: the stored norms are factors minus one.
    """

    name: str
    module: re.Pattern[str]
    names: Mapping[str, str]
    copies: Mapping[str, str]
    hidden_first: bool = False
    recycle_normed: bool = False
    zero_centred: bool = False


def layouts(num_layers: int) -> tuple[Layout, ...]:
    """The known layouts for a target with so many layers."""
    return (
        Layout(
            "DeepSeek",
            re.compile(r"model\.layers\.(\d+)\.(.+)"),
            {**_LAYER, "enorm": "embed_norm", "hnorm": "hidden_norm", "eh_proj": "proj", "shared_head.norm": "norm"},
            {"embed_tokens": "embedding", "shared_head.head": "head"},
        ),
        Layout(
            "Qwen3-Next",
            re.compile(r"mtp\.(?:layers\.(\d+)\.)?(.+)"),
            {
                **_LAYER, "fc": "proj", "pre_fc_norm_embedding": "embed_norm", "pre_fc_norm_hidden": "hidden_norm",
                "norm": "norm",
            },
            {"embed_tokens": "embedding", "lm_head": "head"},
            recycle_normed=True, zero_centred=True,
        ),
        Layout(
            "MiMo",
            re.compile(r"model\.mtp_layers\.(\d+)\.(.+)"),
            {
                **_LAYER, "token_layernorm": "embed_norm", "hidden_layernorm": "hidden_norm", "input_proj": "proj",
                "final_layernorm": "norm",
            },
            {},
            hidden_first=True, recycle_normed=True,
        ),
    )  # fmt: skip


def read_published(folder: Path, target: Target) -> tuple[str, MtpModel]:
    """(name of the layout, the modules with the target's embedding and head) of the checkpoint in `folder`.

    Raises HeadwayError when it holds none, or of a kind that can't be run here.
    """
    stored = stored_tensors(folder)
    for layout in layouts(target.num_layers):
        found = _modules(stored, layout, target.num_layers)
        if found:
            return layout.name, _read(folder, layout, found, target)
    raise HeadwayError(
        f"The checkpoint {folder} holds no MTP modules in a layout that Headway knows (DeepSeek, Qwen3-Next, MiMo); "
        "train some with the family mtp."
    )


def _modules(stored: list[StoredTensor], layout: Layout, num_layers: int) -> dict[int, dict[str, StoredTensor]]:
    """Tensors of each module, from 0, by the rest of their names; DeepSeek's stand behind the target's own layers."""
    first = num_layers if layout.name == "DeepSeek" else 0
    found: dict[int, dict[str, StoredTensor]] = {}
    for tensor in stored:
        match = layout.module.fullmatch(tensor.name)
        if match is not None and int(match[1] or 0) >= first:
            found.setdefault(int(match[1] or 0) - first, {})[match[2]] = tensor
    return found


def _read(folder: Path, layout: Layout, found: dict[int, dict[str, StoredTensor]], target: Target) -> MtpModel:
    tensors: dict[str, Tensor] = {}
    for number, parts in sorted(found.items()):
        for rest, stored in parts.items():
            plain, _, kind = rest.rpartition(".")
            if plain in layout.copies:
                _check_copy(folder, stored, layout.copies[plain], target)
                continue
            if plain not in layout.names or kind not in ("weight", "bias"):
                raise HeadwayError(
                    f"The MTP module in {folder} has a tensor {stored.name}, so its layer is of a kind that Headway "
                    "can't run (experts, latent or gated attention); train modules with the family mtp instead."
                )
            value = _tensor(stored)
            if layout.zero_centred and value.dim() == 1 and kind == "weight":
                value = value + 1
            tensors[f"layers.{number}.{layout.names[plain]}.{kind}"] = value
    model = MtpModel(_config(layout, len(found), tensors, target))
    _check_shapes(folder, tensors, model)
    tensors["token_map"] = model.token_map
    model.load_state_dict(tensors)
    model.hold_target(target)
    return model.to(target.device)


def _config(layout: Layout, count: int, tensors: Mapping[str, Tensor], target: Target) -> MtpConfig:
    rotated = getattr(target.config, "partial_rotary_factor", None) or 1.0
    shape = layer_like(target)
    return MtpConfig(
        layer=shape,
        vocab_size=target.vocab_size,
        draft_vocab_size=None,
        form="shared" if count == 1 else "modules",
        num_modules=count,
        order="hidden_first" if layout.hidden_first else "embedding_first",
        recycle_normed=layout.recycle_normed,
        attention_bias="layers.0.layer.q_proj.bias" in tensors,
        qk_norm="layers.0.layer.q_norm.weight" in tensors,
        rotary_dim=None if rotated == 1.0 else int(rotated * shape.head_dim),
    )


def _check_shapes(folder: Path, tensors: Mapping[str, Tensor], model: MtpModel) -> None:
    expected = {name: value.shape for name, value in model.state_dict().items() if name != "token_map"}
    wrong = sorted(expected.keys() ^ tensors.keys())
    wrong += sorted(name for name in expected.keys() & tensors.keys() if tensors[name].shape != expected[name])
    if wrong:
        raise HeadwayError(
            f"The MTP module in {folder} does not fit the target's layers ({wrong[0]} is missing, unknown or of "
            "another shape); train modules with the family mtp instead."
        )


def _check_copy(folder: Path, stored: StoredTensor, what: str, target: Target) -> None:
    own = target.embedding_weight() if what == "embedding" else target.lm_head_weight()
    if stored.shape != tuple(own.shape) or not torch.equal(_tensor(stored).to(own.dtype), own.cpu()):
        raise HeadwayError(
            f"The MTP module in {folder} brings an {what} of its own ({stored.name}), which Headway can't use; "
            "train modules with the family mtp instead."
        )


def _tensor(stored: StoredTensor) -> Tensor:
    with safe_open(stored.file, framework="pt") as file:
        tensor: Tensor = file.get_tensor(stored.name).float()
    return tensor
