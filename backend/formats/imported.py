"""What importers of all families share: finding tensors by the table, and refusing what does not fit.

Knows no family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from backend.drafters.layer.config import LayerShape
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts, same_numbers
from backend.formats.tables import Row

ZERO_BIAS = ".bias"


@dataclass(frozen=True)
class Imported:
    """A drafter in Headway's terms: the family's config, the model's state without what the target gives, notes."""

    family: str
    config: Any
    state: dict[str, Tensor]
    notes: list[str] = field(default_factory=list)


def collect(rows: Iterable[Row], tensors: Mapping[str, Tensor], optional: Iterable[str] = ()) -> dict[str, Tensor]:
    """Tensors by the table's names; every one found has its shape and finite numbers.

    optional: names that may be missing besides those the table does not need. Raises HeadwayError for what is missing,
    misshapen, not finite, or unknown.
    """
    found: dict[str, Tensor] = {}
    known: set[str] = set()
    for row in rows:
        name = next((name for name in (row.name, *row.aliases) if name in tensors), None)
        if name is None:
            if row.needed and row.name not in optional:
                raise HeadwayError(f"The tensor {row.name} is missing, so this is no whole drafter; fetch it again.")
            continue
        known |= {name}
        found[row.name] = _checked(name, tensors[name], row)
    unknown = sorted(tensors.keys() - known - {alias for row in rows for alias in row.aliases if row.name in found})
    if unknown:
        raise HeadwayError(
            f"The tensor {unknown[0]} belongs to no drafter of this kind that Headway can run, so it is not imported."
        )
    return found


def _checked(name: str, tensor: Tensor, row: Row) -> Tensor:
    if tuple(tensor.shape) != row.shape:
        raise HeadwayError(
            f"The tensor {name} is {list(tensor.shape)} and should be {list(row.shape)} for this target; name the "
            "target the drafter was made for, or fetch it again."
        )
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise HeadwayError(f"The tensor {name} holds numbers that are not finite; fetch the drafter again.")
    return tensor.float() if row.dtype == "float" else tensor


def take_embedding(tensors: dict[str, Tensor], facts: TargetFacts, name: str = "embed_tokens.weight") -> None:
    """Take a copy of the target's embedding out. Raises HeadwayError for an embedding that is another one."""
    own = tensors.pop(name, None)
    if own is not None and not same_numbers(own, facts.embedding):
        raise HeadwayError(
            "The drafter brings an embedding of its own that is not the target's; Headway drafts with the target's, so "
            "name the target it was made for, or train one here."
        )


def take_zero(tensors: dict[str, Tensor], names: Iterable[str], what: str) -> None:
    """Take biases out that are zero. Raises HeadwayError for one that is not."""
    for name in names:
        bias = tensors.pop(name, None)
        if bias is not None and bool(bias.any()):
            raise HeadwayError(f"The drafter has {what} ({name}), which Headway's layer does not have.")


def layer_of(config: Mapping[str, Any], facts: TargetFacts, notes: list[str]) -> LayerShape:
    """The sizes of a Llama-like layer from config.json. Raises HeadwayError where they are missing or senseless."""
    heads = _whole(config, "num_attention_heads")
    width = _whole(config, "hidden_size")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    theta = config.get("rope_theta") or rope.get("rope_theta")
    if theta is None:
        theta = 10000.0
        notes.append("Its config.json names no rope_theta; 10000 was taken, as other readers do.")
    if kind != "default":
        notes.append(f"Its rotary positions are scaled ({kind}), which is left out: drafts of long texts may be worse.")
    if abs(float(theta) - facts.rope_theta) > 1e-6 * facts.rope_theta:
        notes.append(f"Its rope_theta is {theta:g}, the target's {facts.rope_theta:g}.")
    return LayerShape(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or width // heads),
        intermediate_size=_whole(config, "intermediate_size"),
        rope_theta=float(theta),
        rms_norm_eps=float(config.get("rms_norm_eps") or facts.rms_norm_eps),
    )


def _whole(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise HeadwayError(f"Its config.json has no usable {key}, so the layer can't be built; fetch the whole folder.")
    return value


def refuse_width(width: int, facts: TargetFacts) -> None:
    if width != facts.hidden_size:
        raise HeadwayError(
            f"The drafter is made for hidden size {width}, {facts.name} has {facts.hidden_size}; name its own target."
        )


def refuse_vocabulary(vocabulary: int, facts: TargetFacts) -> None:
    if vocabulary != facts.vocab_size:
        raise HeadwayError(
            f"The drafter is made for {vocabulary} tokens, {facts.name} has {facts.vocab_size}; name its own target."
        )


def usual_dtype(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """The dtype that most numbers of the drafter are in, if training can store it; else float32."""
    counts: dict[torch.dtype, int] = {}
    for one in tensors.values():
        if one.is_floating_point():
            counts[one.dtype] = counts.get(one.dtype, 0) + one.numel()
    best = max(counts, key=lambda dtype: counts[dtype], default=torch.float32)
    return best if best in (torch.float16, torch.bfloat16) else torch.float32
