"""Medusa heads of the reference implementation (both versions) and of vLLM's layout. Knows no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.medusa.config import MedusaConfig
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.imported import Imported, collect, refuse_vocabulary, refuse_width
from backend.formats.tables import Sizes, medusa_rows

_BLOCK: Final = re.compile(r"(?:blocks\.)?(\d+)\.(?:layers\.)?(\d+)\.(?:linear\.)?weight")
_MOST: Final = 16


def import_medusa(tensors: dict[str, Tensor], config: Mapping[str, Any], facts: TargetFacts) -> Imported:
    """Raises HeadwayError for heads that are incomplete or of another target."""
    notes: list[str] = []
    blocks = {(int(m[1]), int(m[2])) for name in tensors if (m := _BLOCK.fullmatch(name)) and _is_block(name, tensors)}
    if not blocks:
        raise HeadwayError("There is not one Medusa block in it; fetch the whole folder.")
    heads, depth = 1 + max(head for head, _ in blocks), 1 + max(block for _, block in blocks)
    if heads > _MOST:
        raise HeadwayError(f"It has {heads} Medusa heads; Headway runs up to {_MOST}.")
    refuse_width(next(tensors[n] for n in tensors if _is_block(n, tensors) and n.endswith("weight")).shape[0], facts)
    biased = any(name.endswith(".bias") for name in tensors)
    if biased and "medusa_fc_bias" not in config and any(name.startswith("blocks.") for name in tensors):
        notes.append("Its config.json lacks medusa_fc_bias, so vLLM would drop the biases; they are kept here.")
    sizes = Sizes(
        facts.hidden_size, facts.vocab_size, heads=heads, blocks=depth, flags=_flags(tensors, heads, depth, biased),
        draft_vocabulary=_scored(tensors, facts, notes),
    )  # fmt: skip
    rows = medusa_rows(sizes)
    scored = [row.name for row in rows if row.name.startswith("lm_head")]
    found = collect(rows, _cut(tensors, sizes), optional=scored)
    if not any(name in found for name in scored):
        notes.append("It brings no output layer (version 2), so the target's own is used for all heads.")
    return Imported("medusa", _config(sizes, facts), _state(found, sizes, facts), notes)


def _is_block(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """In the reference's names the vocabulary projection looks like a block, but it is not square of the width."""
    return "linear" in name or name.startswith("blocks.")


def _flags(tensors: Mapping[str, Tensor], heads: int, depth: int, biased: bool) -> frozenset[str]:
    separate = any(name in tensors for name in (f"lm_heads.{heads - 1}.weight", f"{heads - 1}.{depth}.weight"))
    flags = {"bias"} if biased else set()
    flags |= set() if separate and heads > 1 else {"shared"}
    return frozenset(flags | ({"map"} if "token_map" in tensors else set()))


def _scored(tensors: dict[str, Tensor], facts: TargetFacts, notes: list[str]) -> int:
    """Vd. Raises HeadwayError for a damaged map, ValueError never."""
    tokens = tensors.get("token_map")
    if tokens is None:
        outputs = [one for name, one in tensors.items() if "lm_head" in name or re.fullmatch(r"\d+\.\d+\.weight", name)]
        for one in outputs:
            refuse_vocabulary(one.shape[0], facts)
        return facts.vocab_size
    inside = bool(((tokens >= 0) & (tokens < facts.vocab_size)).all())
    if tokens.dim() != 1 or not inside or len(tokens.unique()) != len(tokens):
        raise HeadwayError("Its token_map names tokens twice or such as the target does not have; fetch it again.")
    return len(tokens)


def _cut(tensors: dict[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """With output rows of mapped tokens only: vLLM takes whole ones too and cuts them itself."""
    if "map" not in sizes.flags:
        return tensors
    tokens = tensors["token_map"].long()
    long = {n for n, one in tensors.items() if "lm_head" in n and one.shape[0] == sizes.vocabulary != len(tokens)}
    return {n: one[tokens] if n in long else one for n, one in tensors.items()} | {"token_map": tokens}


def _config(sizes: Sizes, facts: TargetFacts) -> MedusaConfig:
    return MedusaConfig(
        hidden_size=facts.hidden_size, vocab_size=facts.vocab_size, num_heads=sizes.heads, num_blocks=sizes.blocks,
        shared_output="shared" in sizes.flags,
        draft_vocab_size=sizes.draft_vocabulary if "map" in sizes.flags else None,
    )  # fmt: skip


def _state(found: Mapping[str, Tensor], sizes: Sizes, facts: TargetFacts) -> dict[str, Tensor]:
    heads, depth, width = sizes.heads, sizes.blocks, sizes.width
    weight, bias = torch.zeros(heads, depth, width, width), torch.zeros(heads, depth, width)
    for head in range(heads):
        for block in range(depth):
            weight[head, block] = found[f"blocks.{head}.layers.{block}.weight"]
            bias[head, block] = found.get(f"blocks.{head}.layers.{block}.bias", bias[head, block])
    tokens = found.get("token_map", torch.arange(sizes.vocabulary))
    names = ["lm_head.weight"] if "shared" in sizes.flags else [f"lm_heads.{head}.weight" for head in range(heads)]
    output = torch.stack([found.get(name, facts.lm_head[tokens]) for name in names])
    return {"block_weight": weight, "block_bias": bias, "output": output, "token_map": tokens}
