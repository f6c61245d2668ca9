"""Hydra heads of the reference implementation, those of the kind `mlp`. Knows no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.hydra.config import HydraConfig
from backend.errors import HeadwayError
from backend.formats.export_hydra import NEVER
from backend.formats.facts import TargetFacts
from backend.formats.imported import Imported, collect, refuse_vocabulary, refuse_width, take_embedding
from backend.formats.tables import Sizes, hydra_rows

OTHER_KINDS: Final[Mapping[str, str]] = {
    "prefix_embeding_layer.": "a prefix layer",  # spelt so by the reference
    "cross_attn.": "cross-attention",
    "attn.": "an attention layer",
}


def import_hydra(tensors: dict[str, Tensor], config: Mapping[str, Any], facts: TargetFacts) -> Imported:
    """Raises HeadwayError for heads of another kind, incomplete ones, and those of another target."""
    for prefix, words in OTHER_KINDS.items():
        if any(name.startswith(prefix) for name in tensors):
            raise HeadwayError(f"These Hydra heads have {words}, which Headway does not run; it reads the kind mlp.")
    if not any(".res_connection." in name for name in tensors):
        raise HeadwayError("These Hydra heads are not grounded in the drafted tokens, so Headway can't run them.")
    heads = 1 + max((int(m[1]) for name in tensors if (m := re.match(r"hydra_mlp\.(\d+)\.", name))), default=0)
    blocks = 1 + max((int(m[1]) for name in tensors if (m := re.match(r"hydra_mlp\.0\.(\d+)\.", name))), default=0)
    refuse_width(tensors["hydra_mlp.0.0.linear.weight"].shape[0], facts)
    refuse_vocabulary(tensors["hydra_lm_head.0.weight"].shape[0], facts)
    take_embedding(tensors, facts, "input_embed_fn.weight")
    sizes = Sizes(facts.hidden_size, facts.vocab_size, facts.vocab_size, heads=heads, blocks=blocks)
    found = collect(hydra_rows(sizes), tensors)
    return _heads(found, sizes, facts)


def _heads(found: Mapping[str, Tensor], sizes: Sizes, facts: TargetFacts) -> Imported:
    heads, width = sizes.heads, sizes.width
    rows = torch.stack([found[f"hydra_lm_head.{head}.weight"] for head in range(heads)])
    none = torch.zeros(sizes.vocabulary)
    bias = torch.stack([found.get(f"hydra_lm_head.{head}.bias", none) for head in range(heads)])
    drafted = (bias > NEVER / 2).any(0).nonzero()[:, 0]  # a bias far below all scores says: never
    rows, bias = rows[:, drafted], bias[:, drafted]
    shared = heads > 1 and bool((rows == rows[:1]).all()) and bool((bias == bias[:1]).all())
    plain = all(_is_state(found, head, width) for head in range(heads))
    config = HydraConfig(
        hidden_size=width, vocab_size=facts.vocab_size, num_heads=heads, num_blocks=sizes.blocks - 1,
        shared_output=shared, draft_vocab_size=None if len(drafted) == facts.vocab_size else len(drafted),
        **({} if plain else {"residual": "linear"}), **({"output_bias": True} if bool(bias.any()) else {}),
    )  # fmt: skip
    state = {"output": rows[:1] if shared else rows, "token_map": drafted}
    if bool(bias.any()):
        state["output_bias"] = bias[:1] if shared else bias
    for head in range(heads):
        for kind in ("weight", "bias"):
            state[f"joins.{head}.{kind}"] = found[f"hydra_mlp.{head}.0.linear.{kind}"]
            if not plain:
                state[f"residuals.{head}.{kind}"] = found[f"hydra_mlp.{head}.0.res_connection.{kind}"]
            for block in range(1, sizes.blocks):
                state[f"blocks.{head}.{block - 1}.{kind}"] = found[f"hydra_mlp.{head}.{block}.linear.{kind}"]
    return Imported("hydra", config, state)


def _is_state(found: Mapping[str, Tensor], head: int, width: int) -> bool:
    """Whether the residual hands on the target's state as it is."""
    weight, bias = (found[f"hydra_mlp.{head}.0.res_connection.{kind}"] for kind in ("weight", "bias"))
    return not bool(bias.any()) and torch.equal(weight, torch.eye(width, weight.shape[1]))
