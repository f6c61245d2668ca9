"""EAGLE-1 and EAGLE-2 heads as SafeAILab publishes them, and as vLLM and SGLang read them. Knows no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from backend.drafters.eagle.config import EagleConfig
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts, same_numbers
from backend.formats.imported import (
    Imported,
    collect,
    layer_of,
    refuse_vocabulary,
    refuse_width,
    take_embedding,
)
from backend.formats.own import sizes_of_layer
from backend.formats.tables import eagle_rows


def import_eagle(tensors: dict[str, Tensor], config: Mapping[str, Any], facts: TargetFacts) -> Imported:
    """Raises HeadwayError for a head with parts that Headway's does not have, or of another target."""
    notes: list[str] = []
    if any(name.startswith("layers.1.") for name in tensors):
        raise HeadwayError("This EAGLE head has more than one layer; Headway runs heads of one layer.")
    if "layers.0.input_layernorm.weight" in tensors:
        raise HeadwayError("This head norms its joined input, which EAGLE does not; Headway can't run it.")
    if tensors["fc.weight"].shape[1] != 2 * tensors["fc.weight"].shape[0]:
        raise HeadwayError("Its fc does not join one state with one embedding, so this is no EAGLE-1 or EAGLE-2 head.")
    layer = layer_of(config, facts, notes)
    refuse_width(layer.hidden_size, facts)
    refuse_vocabulary(int(config.get("vocab_size") or facts.vocab_size), facts)
    take_embedding(tensors, facts)
    head = tensors.pop("lm_head.weight", None)
    if head is not None and not same_numbers(head, facts.lm_head):
        notes.append("It brings an output head that is not the target's; EAGLE uses the target's, so it was left out.")
    biased = "fc.bias" in tensors and bool(tensors["fc.bias"].any())
    if not biased:
        tensors.pop("fc.bias", None)
    flags = frozenset({"fc_bias"} if biased else ())
    rows = eagle_rows(sizes_of_layer(layer, facts.vocab_size, facts.vocab_size, flags=flags))
    found = collect(rows, tensors)
    state = {row.own: found[row.name] for row in rows if row.name in found}
    state["token_map"] = torch.arange(facts.vocab_size)
    own = EagleConfig(layer=layer, vocab_size=facts.vocab_size, draft_vocab_size=None, fc_bias=biased)
    return Imported("eagle", own, state, notes)
