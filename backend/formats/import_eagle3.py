"""EAGLE-3 heads of SafeAILab, SpecForge, the speculators library and Model-Optimizer. Knows no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.layer.config import LayerShape
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.imported import (
    Imported,
    collect,
    layer_of,
    refuse_vocabulary,
    refuse_width,
    take_embedding,
    take_zero,
)
from backend.formats.layer_ids import Convention, layers_read
from backend.formats.own import sizes_of_layer
from backend.formats.tables import eagle3_rows
from backend.formats.vocabulary import token_map_of

NORMS: Final = ("norm_output", "norm_before_residual", "norm_before_fc", "fc_norm")
#: names besides the table's -> why a head that has them can't be run
FOREIGN: Final[Mapping[str, str]] = {
    "additional_layers.": "more than one layer",
    "layers.1.": "more than one layer",
    "midlayer.self_attn.q_norm": "norms on its queries and keys",
    "layers.0.self_attn.q_norm": "norms on its queries and keys",
    "mask_hidden": "places that are drafted at once (P-EAGLE)",
}
_UNUSED: Final = ("verifier_norm.weight", "verifier_lm_head.weight")


def import_eagle3(
    tensors: dict[str, Tensor],
    config: Mapping[str, Any],
    facts: TargetFacts,
    note: Mapping[str, Any] | None = None,
    convention: Convention = "auto",
) -> Imported:
    """Raises HeadwayError for a head with parts that Headway's does not have, or of another target."""
    speculators = isinstance(config.get("transformer_layer_config"), Mapping)
    merged = {**config, **config["transformer_layer_config"]} if speculators else config
    for prefix, words in FOREIGN.items():
        if any(name.startswith(prefix) for name in tensors):
            raise HeadwayError(f"This EAGLE-3 head has {words}, which Headway's does not have.")
    inner = config.get("eagle_config")
    if isinstance(inner, Mapping) and inner.get("use_aux_hidden_state") is False:
        raise HeadwayError("This head reads the last hidden state alone (use_aux_hidden_state is false); train an "
                           "EAGLE head here instead.")  # fmt: skip
    for name in _UNUSED:
        tensors.pop(name, None)
    reads, sentence = layers_read(config, note or {}, facts.num_layers, convention)
    notes = [] if note and note.get("reads") else [sentence]
    layer = layer_of(merged, facts, notes)
    refuse_width(layer.hidden_size, facts)
    refuse_vocabulary(int(merged.get("vocab_size") or facts.vocab_size), facts)
    own = _config(merged, layer, reads, tensors, facts, speculators, notes)
    return Imported("eagle3", own, _state(own, tensors, facts, notes), notes)


def _config(
    config: Mapping[str, Any], layer: LayerShape, reads: tuple[int, ...], tensors: Mapping[str, Tensor],
    facts: TargetFacts, speculators: bool, notes: list[str],
) -> Eagle3Config:  # fmt: skip
    if "fc.weight" not in tensors:
        raise HeadwayError("The tensor fc.weight is missing, so this is no whole EAGLE-3 head; fetch it again.")
    states = tensors["fc.weight"].shape[1] / facts.hidden_size
    if states != len(reads):
        raise HeadwayError(
            f"Its fc joins {states:g} of the target's states, but its config.json names {len(reads)} layers; name the "
            "target it was made for."
        )
    if list(reads) != sorted(set(reads)) or not 0 <= reads[0] <= reads[-1] <= facts.num_layers:
        raise HeadwayError(
            f"It reads the layers {', '.join(map(str, reads))}, which are not {len(reads)} rising layers of "
            f"{facts.name} (0 to {facts.num_layers}); try the other --layer-ids."
        )
    norms = {name: bool(config.get(name, False)) for name in NORMS}
    if speculators and "norm_before_residual" not in config:
        norms["norm_before_residual"] = True
        notes.append("Its config.json does not say norm_before_residual; true was taken, as vLLM does for this format.")
    drafted = tensors["lm_head.weight"].shape[0] if "lm_head.weight" in tensors else facts.vocab_size
    return Eagle3Config(
        layer=layer, target_hidden_size=facts.hidden_size, vocab_size=facts.vocab_size, draft_vocab_size=drafted,
        reads=reads, **norms,
    )  # fmt: skip


def _state(own: Eagle3Config, tensors: dict[str, Tensor], facts: TargetFacts, notes: list[str]) -> dict[str, Tensor]:
    take_embedding(tensors, facts)
    take_zero(tensors, ["fc.bias"], "a bias on fc")
    biases = [name for name in tensors if ".self_attn." in name and name.endswith(".bias")]
    take_zero(tensors, biases, "a bias in its attention")
    token_map = token_map_of(tensors, own.draft_vocab_size, facts.vocab_size, notes)
    tensors = {name: one for name, one in tensors.items() if name not in ("d2t", "t2d")}
    if "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = facts.lm_head
        notes.append("It brings no output head, so the target's own is used.")
    flags = {"input_norm"} if own.norm_before_fc else set()
    sizes = sizes_of_layer(
        own.layer, own.draft_vocab_size, own.draft_vocab_size, states=len(own.reads),
        target_width=own.target_hidden_size, flags=frozenset(flags | ({"fc_norm"} if own.fc_norm else set())),
    )  # fmt: skip  # with one vocabulary, so that the table asks for no map
    rows = eagle3_rows(sizes)
    found = collect(rows, tensors)
    state = {row.own: found[row.name] for row in rows if row.own and row.name in found}
    return state | {"token_map": token_map, "state_scale": torch.ones(len(own.reads))}
