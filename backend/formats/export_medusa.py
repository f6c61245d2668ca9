"""Medusa heads for vLLM: a shared output layer with a token map, or output rows for the whole vocabulary.

Knows the folder's content, not how it is written.
"""

from __future__ import annotations

from torch import Tensor

from backend.drafters.medusa.config import MedusaConfig
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.own import Own, sorted_map
from backend.formats.parts import ExportOptions, Parts
from backend.formats.tables import Sizes, medusa_rows

FULL_NOTE = (
    "The heads score the whole vocabulary here; tokens they were not trained to draft have rows of zeros, so such a "
    "token is only drafted where all others score below zero."
)


def medusa_sizes(config: MedusaConfig, full: bool) -> Sizes:
    flags = {"bias"} | ({"shared"} if config.shared_output else set())
    reduced = not full and config.output_rows < config.vocab_size
    return Sizes(
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        draft_vocabulary=config.output_rows if reduced else config.vocab_size,
        heads=config.num_heads,
        blocks=config.num_blocks,
        flags=frozenset(flags | ({"map"} if reduced else set())),
    )


def medusa_parts(own: Own, options: ExportOptions, facts: TargetFacts) -> Parts:
    """Raises HeadwayError for an engine that runs no Medusa heads."""
    if options.engine != "vllm":
        raise HeadwayError(f"{options.engine} runs no Medusa heads; export them for vllm, or train an EAGLE head.")
    config: MedusaConfig = own.config
    reduced = config.output_rows < config.vocab_size
    # vLLM 0.32 knows a token map only beside one shared output layer.
    full = reduced and (options.full_head or not config.shared_output)
    sizes, tensors = medusa_sizes(config, full), {}
    for row in medusa_rows(sizes):
        tensors[row.name] = _tensor(row.name, own, full, facts)
    return Parts(_config(config, sizes), tensors, [FULL_NOTE] if full else [])


def _config(config: MedusaConfig, sizes: Sizes) -> dict[str, object]:
    # No num_attention_heads here: vLLM takes any key with "num" and "heads" for the number of Medusa heads.
    return {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "truncated_vocab_size": sizes.draft_vocabulary,
        "num_heads": config.num_heads,
        "num_hidden_layers": config.num_blocks,
        "medusa_fc_bias": True,
        "original_lm_head": config.shared_output,
        "logit_scale": 1.0,
        "max_paths": 64,
        "topk": 10,
    }


def _tensor(name: str, own: Own, full: bool, facts: TargetFacts) -> Tensor:
    parts = name.split(".")
    if parts[0] == "blocks":
        stack = own.state["block_weight" if parts[-1] == "weight" else "block_bias"]
        return stack[int(parts[1]), int(parts[3])]
    tokens, order = sorted_map(own.state)
    if name == "token_map":
        return tokens
    rows = own.state["output"][int(parts[1]) if parts[0] == "lm_heads" else 0][order]
    return rows if not full else with_empty_rows(rows, tokens, facts.vocab_size)


def with_empty_rows(rows: Tensor, tokens: Tensor, vocabulary: int) -> Tensor:
    """rows [Vd, H] of tokens int64 [Vd], zeros for all others: [V, H].

    Not the target's own rows: with those vLLM accepted a quarter less at the first position and half as much at the
    second, because the heads were never trained against them.
    """
    whole = rows.new_zeros(vocabulary, rows.shape[1])
    whole[tokens] = rows
    return whole
