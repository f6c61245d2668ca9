"""Hydra heads in the reference's layout (`hydra_lm_head.pt`), which its own decoder runs. No serving engine does."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from backend.drafters.hydra.config import HydraConfig
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.own import Own, sizes_of_layer
from backend.formats.parts import ExportOptions, Parts
from backend.formats.tables import HYDRA_PREFIX, Sizes, hydra_place, hydra_rows
from backend.targets.sources import split_target

NEVER = -30000.0  #: bias of a token that can't be drafted; float16 holds it


def hydra_sizes(config: HydraConfig) -> Sizes:
    heads, blocks = config.num_heads, config.num_blocks + 1
    if config.prefix is None:
        return Sizes(config.hidden_size, config.vocab_size, config.vocab_size, heads=heads, blocks=blocks)
    prefixed = sizes_of_layer(config.prefix, config.vocab_size, config.vocab_size, flags=frozenset({"prefix"}))
    return replace(prefixed, heads=heads, blocks=blocks)


def hydra_parts(own: Own, options: ExportOptions, facts: TargetFacts) -> Parts:
    """Raises HeadwayError for other engines, and for heads the reference's modules can't hold."""
    config: HydraConfig = own.config
    if options.engine != "hydra":
        raise HeadwayError(f"{options.engine} runs no Hydra heads; export with --engine hydra or own, or train EAGLE.")
    if not _one_block(own):
        raise HeadwayError(
            f"The reference's Hydra heads share one block behind the joining layer, these have {config.num_blocks} of "
            "their own; train heads with one block, or export with --engine own."
        )
    rows = [row for row in hydra_rows(hydra_sizes(config)) if row.name != f"{HYDRA_PREFIX}embed_tokens.weight"]
    tensors = {row.name: own.state[row.own] if row.own else _tensor(row.name, own, facts) for row in rows}
    written = {
        "hydra_num_heads": config.num_heads,
        "hydra_num_layers": config.num_blocks + 1,
        "hydra_head_arch": "mlp" if config.prefix is None else "prefix-mlp",
        "grounded_heads": True,
        "hidden_state_offset": 0,
        "base_model_name_or_path": split_target(facts.name)[0],
    }
    return Parts(written, tensors, pickle="hydra_lm_head.pt")


def _one_block(own: Own) -> bool:
    """Whether all blocks of a head are the same, as those of imported heads are."""
    blocks = [(head, block) for head in range(own.config.num_heads) for block in range(1, own.config.num_blocks)]
    return all(
        torch.equal(own.state[f"blocks.{head}.{block}.{kind}"], own.state[f"blocks.{head}.0.{kind}"])
        for head, block in blocks
        for kind in ("weight", "bias")
    )


def _tensor(name: str, own: Own, facts: TargetFacts) -> Tensor:
    if name == "input_embed_fn.weight":
        return facts.embedding
    parts, config = name.split("."), own.config
    head, kind = int(parts[1]), parts[-1]
    if parts[0] == "hydra_lm_head":
        return _scoring(own, 0 if config.shared_output else head, kind)
    if (place := int(parts[2])) != hydra_place(0, prefixed := config.prefix is not None):
        block = next(block for block in range(config.num_blocks) if hydra_place(block + 1, prefixed) == place)
        return own.state[f"blocks.{head}.{block}.{kind}"]
    if parts[3] == "linear":
        return own.state.get(f"joins.{head}.{kind}", torch.empty(0))
    if f"residuals.{head}.{kind}" in own.state:
        return own.state[f"residuals.{head}.{kind}"]
    width = config.hidden_size  # our residual is the hidden state itself, the first part of what is joined
    return torch.eye(width, (head + 2) * width) if kind == "weight" else torch.zeros(width)


def _scoring(own: Own, layer: int, kind: str) -> Tensor:
    """The output layer over the whole vocabulary; a bias keeps the tokens out that can't be drafted."""
    config, tokens = own.config, own.state["token_map"]
    if kind == "bias":
        own_bias = own.state.get("output_bias")
        drafted = torch.zeros(config.output_rows) if own_bias is None else own_bias[layer]
        return torch.full((config.vocab_size,), NEVER).index_copy(0, tokens, drafted)
    return torch.zeros(config.vocab_size, config.hidden_size).index_copy(0, tokens, own.state["output"][layer])
