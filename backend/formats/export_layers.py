"""EAGLE and EAGLE-3 heads for vLLM and SGLang. Knows the folders' content, not how they are written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.layer.config import LayerShape
from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.own import Own, sizes_of_layer, sorted_map
from backend.formats.parts import ExportOptions, Parts
from backend.formats.tables import Sizes, eagle3_rows, eagle_rows, sglang_eagle3_rows
from backend.targets.sources import split_target

NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
SPECULATORS_VERSION = "0.9.0"  #: the version of the format that was read


def llama_config(layer: LayerShape, facts: TargetFacts) -> dict[str, Any]:
    """The keys that both engines read of a one-layer Llama."""
    return {
        "model_type": "llama",
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "num_attention_heads": layer.num_heads,
        "num_key_value_heads": layer.num_kv_heads,
        "head_dim": layer.head_dim,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": layer.rms_norm_eps,
        # At the top level too: converters read only that and fall back to 10,000 without a word.
        "rope_theta": layer.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": layer.rope_theta},
        "max_position_embeddings": facts.max_context,
        "vocab_size": facts.vocab_size,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    }


# -- EAGLE -------------------------------------------------------------------------------------------------------------


def eagle_parts(own: Own, options: ExportOptions, facts: TargetFacts) -> Parts:
    """Raises HeadwayError where the engine can't run the head as it was trained."""
    config: EagleConfig = own.config
    sglang = _engine(options, "EAGLE") == "sglang"
    bias = own.state.get("fc.bias")
    if bias is not None and not sglang:
        raise HeadwayError("vLLM has no place for the bias of this head's fc; train it without, or export for sglang.")
    flags = frozenset({"fc_bias"} if sglang else ())
    sizes = sizes_of_layer(config.layer, config.vocab_size, config.vocab_size, flags=flags)
    tensors = _named(eagle_rows(sizes), own.state, options, facts)
    if sglang:  # its fc always has a bias, which would stay at random values
        tensors["fc.bias"] = torch.zeros(sizes.width) if bias is None else bias
    name = "LlamaForCausalLMEagle" if sglang else "LlamaForCausalLM"
    written = {"architectures": [name], **llama_config(config.layer, facts), "bias": sglang}
    notes = []
    if config.output_size < config.vocab_size:
        notes.append(
            f"Headway scores {config.output_size} tokens, the engine the whole vocabulary with the target's own head, "
            "so now and then a token outside of them is drafted."
        )
    return Parts(written, tensors, notes)


# -- EAGLE-3 -----------------------------------------------------------------------------------------------------------


def eagle3_sizes(config: Eagle3Config) -> Sizes:
    flags = {"input_norm"} if config.norm_before_fc else set()
    return sizes_of_layer(
        config.layer, config.vocab_size, config.draft_vocab_size, states=len(config.reads),
        target_width=config.target_hidden_size, flags=frozenset(flags | ({"fc_norm"} if config.fc_norm else set())),
    )  # fmt: skip


def eagle3_parts(own: Own, options: ExportOptions, facts: TargetFacts) -> Parts:
    """Raises HeadwayError where the engine can't run the head as it was trained."""
    config: Eagle3Config = own.config
    sglang = _engine(options, "EAGLE-3") == "sglang"
    if sglang:
        _refuse_for_sglang(config, facts)
    sizes, state = eagle3_sizes(config), folded(own)
    tokens, order = sorted_map(own.state)
    state["lm_head.weight"] = state["lm_head.weight"][order]
    rows = sglang_eagle3_rows(sizes) if sglang else eagle3_rows(sizes)
    tensors = _named(rows, state, options, facts)
    if sizes.draft_vocabulary < sizes.vocabulary:
        tensors["d2t"] = tokens - torch.arange(len(tokens))  # offsets, not ids
        tensors["t2d"] = torch.zeros(sizes.vocabulary, dtype=torch.bool).index_fill(0, tokens, True)
    if options.speculators:
        tensors = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
        return Parts(_speculators_config(own, facts, options), tensors, reads=config.reads)
    return Parts(_eagle3_config(config, facts, sglang), tensors, reads=config.reads)


def folded(own: Own) -> dict[str, Tensor]:
    """The state with the scales of the target's states in `fc`: linear, and powers of two, so nothing is rounded."""
    state, config = dict(own.state), own.config
    scale = state.pop("state_scale")
    if bool((scale == 1).all()):
        return state
    if config.norm_before_fc or config.fc_norm:
        raise HeadwayError("This head scales states before it norms them, which no engine does; train it again.")
    columns = scale.repeat_interleave(config.target_hidden_size)
    state["fc.weight"] = state["fc.weight"] * columns
    return state


def _eagle3_config(config: Eagle3Config, facts: TargetFacts, sglang: bool) -> dict[str, Any]:
    # SGLang's list names the layer whose *output* is read, one less than the layer whose input that is.
    ids = [layer - 1 for layer in config.reads] if sglang else list(config.reads)
    written: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        **llama_config(config.layer, facts),
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        "bias": False,
        **{name: bool(getattr(config, name)) for name in NORMS},
        "num_aux_hidden_states": len(ids),
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True},
    }
    if not sglang:
        written["eagle_aux_hidden_state_layer_ids"] = ids
    return written


def _speculators_config(own: Own, facts: TargetFacts, options: ExportOptions) -> dict[str, Any]:
    config: Eagle3Config = own.config
    tokens = options.max_tokens or own.shape.max_depth
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": SPECULATORS_VERSION,
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": None if config.target_hidden_size == config.layer.hidden_size else facts.hidden_size,
        # Written out even where false: vLLM takes true for this format when it is absent.
        **{name: bool(getattr(config, name)) for name in NORMS},
        "embed_requires_grad": False,
        "tie_word_embeddings": False,
        "eagle_aux_hidden_state_layer_ids": list(config.reads),
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {
                    "proposal_type": "greedy",
                    "speculative_tokens": tokens,
                    "verifier_accept_k": 1,
                    "accept_tolerance": 0.0,
                }
            ],
            "verifier": {"name_or_path": split_target(facts.name)[0], "architectures": list(facts.architectures)},
        },
        "transformer_layer_config": llama_config(config.layer, facts),
    }


def _refuse_for_sglang(config: Eagle3Config, facts: TargetFacts) -> None:
    used = [name for name in NORMS if getattr(config, name)]
    if used:
        raise HeadwayError(f"SGLang's EAGLE-3 has no {used[0]}; export for vllm, or train the head without it.")
    if len(config.reads) != 3:
        raise HeadwayError(f"SGLang's EAGLE-3 reads three layers, this head {len(config.reads)}; export for vllm.")
    if config.reads[0] < 1:
        raise HeadwayError("SGLang's EAGLE-3 can't read the embeddings (layer 0); export for vllm, or read others.")
    if config.reads[-1] >= facts.num_layers:
        raise HeadwayError("SGLang's EAGLE-3 can't read what leaves the last layer; export for vllm, or read others.")


# -- both --------------------------------------------------------------------------------------------------------------


def _engine(options: ExportOptions, family: str) -> str:
    if options.engine not in ("vllm", "sglang"):
        raise HeadwayError(f"The format of {options.engine} holds no {family} heads; export them for vllm or sglang.")
    return options.engine


def _named(rows: Any, state: dict[str, Tensor], options: ExportOptions, facts: TargetFacts) -> dict[str, Tensor]:
    """Those rows of the table that are tensors of ours, under the engine's names."""
    tensors = {row.name: state[row.own] for row in rows if row.own and row.own in state}
    if options.embedding:
        tensors["embed_tokens.weight"] = facts.embedding
    return tensors
