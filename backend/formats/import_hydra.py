"""Hydra heads of the reference implementation, those of the kinds `mlp` and `prefix-mlp`. Knows no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from pydantic import ValidationError
from torch import Tensor

from backend.drafters.hydra.config import HydraConfig
from backend.errors import HeadwayError
from backend.formats.export_hydra import NEVER, hydra_sizes
from backend.formats.facts import TargetFacts
from backend.formats.imported import Imported, collect, refuse_vocabulary, refuse_width, take_embedding
from backend.formats.tables import HYDRA_PREFIX, hydra_place, hydra_rows

OTHER_KINDS: Final[Mapping[str, str]] = {"cross_attn.": "cross-attention", "attn.": "an attention layer"}


def import_hydra(tensors: dict[str, Tensor], config: Mapping[str, Any], facts: TargetFacts) -> Imported:
    """Raises HeadwayError for heads of another kind, incomplete ones, and those of another target."""
    for prefix, words in OTHER_KINDS.items():
        if any(name.startswith(prefix) for name in tensors):
            raise HeadwayError(
                f"These Hydra heads have {words}, which Headway does not run; it reads the kinds mlp and prefix-mlp."
            )
    if not any(".res_connection." in name for name in tensors):
        raise HeadwayError("These Hydra heads are not grounded in the drafted tokens, so Headway can't run them.")
    prefixed = has_prefix(tensors)
    places = [int(m[1]) for name in tensors if (m := re.match(r"hydra_mlp\.0\.(\d+)\.", name))]
    whole = _config(
        hidden_size=facts.hidden_size,
        vocab_size=facts.vocab_size,
        num_heads=1 + max((int(m[1]) for name in tensors if (m := re.match(r"hydra_mlp\.(\d+)\.", name))), default=0),
        num_blocks=max(places, default=0) // (2 if prefixed else 1),
        draft_vocab_size=None,
        prefix=facts.layer if prefixed else None,
    )
    first, scores = (
        f"hydra_mlp.0.{hydra_place(0, prefixed)}.linear.weight",
        f"hydra_lm_head.0{'.1' * prefixed}.weight",
    )
    if first in tensors and scores in tensors:
        refuse_width(tensors[first].shape[0], facts)
        refuse_vocabulary(tensors[scores].shape[0], facts)
    take_embedding(tensors, facts, "input_embed_fn.weight")
    tensors.pop(f"{HYDRA_PREFIX}embed_tokens.weight", None)  # the reference makes one and reads states instead
    rows = hydra_rows(hydra_sizes(whole))
    found = collect(rows, tensors)
    made = _heads(found, whole)
    made.state.update({row.own: found[row.name] for row in rows if row.own})
    return made


def _config(**sizes: Any) -> HydraConfig:
    try:
        return HydraConfig(**sizes)
    except ValidationError as error:
        first = error.errors()[0]
        raise HeadwayError(
            f"These Hydra heads have {first['input']} as {first['loc'][0]}, which is more than Headway runs."
        ) from None


def has_prefix(tensors: Mapping[str, Tensor]) -> bool:
    """Whether these are heads of the kind `prefix-mlp`."""
    return any(name.startswith(HYDRA_PREFIX) for name in tensors)


def _heads(found: Mapping[str, Tensor], whole: HydraConfig) -> Imported:
    heads, width, prefixed = whole.num_heads, whole.hidden_size, whole.prefix is not None
    scoring = [f"hydra_lm_head.{head}{'.1' * prefixed}" for head in range(heads)]
    rows = torch.stack([found[f"{name}.weight"] for name in scoring])
    none = torch.zeros(whole.vocab_size)
    bias = torch.stack([found.get(f"{name}.bias", none) for name in scoring])
    drafted = (bias > NEVER / 2).any(0).nonzero()[:, 0]  # a bias far below all scores says: never
    rows, bias = rows[:, drafted], bias[:, drafted]
    shared = heads > 1 and bool((rows == rows[:1]).all()) and bool((bias == bias[:1]).all())
    first = hydra_place(0, prefixed)
    plain = all(_is_state(found, f"hydra_mlp.{head}.{first}.res_connection", width) for head in range(heads))
    config = whole.model_copy(
        update={
            "shared_output": shared,
            "draft_vocab_size": None if len(drafted) == whole.vocab_size else len(drafted),
            "residual": "state" if plain else "linear",
            "output_bias": bool(bias.any()),
        }
    )
    state = {"output": rows[:1] if shared else rows, "token_map": drafted}
    if bool(bias.any()):
        state["output_bias"] = bias[:1] if shared else bias
    for head in range(heads):
        for kind in ("weight", "bias"):
            state[f"joins.{head}.{kind}"] = found[f"hydra_mlp.{head}.{first}.linear.{kind}"]
            if not plain:
                state[f"residuals.{head}.{kind}"] = found[f"hydra_mlp.{head}.{first}.res_connection.{kind}"]
            for block in range(whole.num_blocks):
                name = f"hydra_mlp.{head}.{hydra_place(block + 1, prefixed)}.linear.{kind}"
                state[f"blocks.{head}.{block}.{kind}"] = found[name]
    return Imported("hydra", config, state)


def _is_state(found: Mapping[str, Tensor], name: str, width: int) -> bool:
    """Whether the residual hands on what comes first in its input as it is."""
    weight, bias = found[f"{name}.weight"], found[f"{name}.bias"]
    return not bool(bias.any()) and torch.equal(weight, torch.eye(width, weight.shape[1]))
