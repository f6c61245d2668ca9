"""Everything that can be wrong with an exported folder: what the engine would do, and how it is mended.

One table, so that each explanation is written once. Knows words, no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Effect = Literal["load", "silent", "doubt"]
EFFECTS: Final[Mapping[str, str]] = {
    "load": "error when it is loaded",
    "silent": "loads without a word, and fewer tokens are accepted",
    "doubt": "loads; may be meant so",
}


@dataclass(frozen=True)
class Explanation:
    effect: Effect
    consequence: str
    mend: str


@dataclass(frozen=True)
class Finding:
    """One fault. `where`: the tensor or config key; `what`: what was found there."""

    id: str
    where: str
    what: str
    effect: Effect
    consequence: str
    mend: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id, "where": self.where, "what": self.what, "effect": self.effect,
            "consequence": self.consequence, "mend": self.mend,
        }  # fmt: skip


@dataclass
class Book:
    """Findings as they are made; one of a kind and place is enough."""

    findings: list[Finding] = field(default_factory=list)

    def add(self, name: str, where: str, what: str, effect: Effect | None = None) -> None:
        told = EXPLANATIONS[name]
        finding = Finding(name, where, what, effect or told.effect, told.consequence, told.mend)
        if (name, where) not in {(one.id, one.where) for one in self.findings}:
            self.findings.append(finding)


_AGAIN: Final = "Export the drafter again with `export`."
EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    # -- any family ----------------------------------------------------------------------------------------------------
    "engine-lacks-family": Explanation(
        "load", "The engine has no code for this kind of drafter.",
        "Serve it with another engine, or train a kind that this one runs."),
    "config-key-missing": Explanation(
        "load", "The engine can't build the drafter, or builds it with a size that is not its own.",
        "Add the key to config.json. " + _AGAIN),
    "config-missing": Explanation("load", "Without config.json the engine does not know what it is.", _AGAIN),
    "architecture": Explanation(
        "load", "The engine picks its code by this name and finds none, or that of a whole model.",
        "Write the name that the engine knows into `architectures`. " + _AGAIN),
    "tensor-missing": Explanation(
        "silent", "The weight stays at the random or constant value it was made with.", _AGAIN),
    "tensor-unknown": Explanation(
        "silent", "The engine has no place for it and leaves it out.",
        "Rename it if it is a misspelt one; else leave it out of the file."),
    "tensor-shape": Explanation(
        "load", "The weight does not fit the size that config.json gives.",
        "Put sizes and head counts into config.json that are the drafter's. " + _AGAIN),
    "tensor-dtype": Explanation(
        "load", "The engine reads numbers of another kind there.",
        "Store weights as float32, bfloat16 or float16, maps as int64. " + _AGAIN),
    "tensor-not-finite": Explanation(
        "silent", "One NaN or infinity makes every score NaN, and nothing is accepted.",
        "Look whether training went astray or float16 overflowed; export float32 or bfloat16."),
    "tensor-zero": Explanation(
        "silent", "A matrix of zeros was never trained or never copied.", "Train the drafter, or fill it. " + _AGAIN),
    "tensor-twice": Explanation(
        "doubt", "Two names mean the same weight; which one wins depends on their order.", "Leave one of them out."),
    "tensors-identical": Explanation(
        "silent", "Two parts that should each have learned hold the same numbers: one was saved twice.",
        "Save each part's own weights. " + _AGAIN),
    "hidden-size": Explanation(
        "load", "The drafter can't take the target's states.", "Use the target that it was trained for."),
    "vocab-size": Explanation(
        "load", "Drafted tokens would not be the target's.", "Use the target that it was trained for."),
    "other-version": Explanation(
        "silent", "It was trained for other weights of the target, so it guesses what another model would say.",
        "Train it for these weights, or export the right one."),
    "embedding-differs": Explanation(
        "doubt", "The engine keeps this embedding instead of sharing the target's.",
        "Leave embed_tokens out unless the drafter was trained with an embedding of its own."),
    "context-short": Explanation(
        "doubt", "Texts longer than this are refused or drafted badly.",
        "Write the target's max_position_embeddings."),
    # -- Medusa --------------------------------------------------------------------------------------------------------
    "medusa-bias-dropped": Explanation(
        "silent", "Without `medusa_fc_bias: true` vLLM drops every bias.", "Add `\"medusa_fc_bias\": true`."),
    "medusa-bias-missing": Explanation(
        "load", "`medusa_fc_bias` promises biases that are not in the file.", "Write zero biases, or say false."),
    "medusa-heads-key": Explanation(
        "load", "vLLM takes any key with “num” and “heads” for the number of Medusa heads.",
        "Take the key out of config.json."),
    "medusa-layers-key": Explanation(
        "load", "vLLM takes any key with “num” and “layers” for the blocks of a head.",
        "Take the key out of config.json."),
    "medusa-heads-count": Explanation(
        "silent", "Heads beyond the number in config.json are never used.", "Write the number of heads in the file."),
    "medusa-no-output": Explanation(
        "load", "Heads of version 2 bring no output layer, and vLLM does not take the target's.",
        "Import them and export them again: the target's rows are then written."),
    "medusa-map": Explanation(
        "load", "vLLM 0.32 takes a token map up and then counts it among the weights that it did not load.",
        "Export with the whole vocabulary, which is the default (`--full-head`)."),
    "medusa-map-unshared": Explanation(
        "load", "vLLM cuts the output rows by the map but has made room for the whole vocabulary.",
        "Share one output layer (`original_lm_head: true`), or leave the map out and write all rows."),
    "medusa-map-size": Explanation(
        "load", "`truncated_vocab_size` has to be the number of tokens in `token_map`.", "Write that number."),
    "map-range": Explanation(
        "load", "The map names tokens that the target does not have.", "Build the map for this target. " + _AGAIN),
    "map-duplicate": Explanation(
        "silent", "The map names a token twice, so one of its rows can never be drafted rightly.",
        "Build the map anew. " + _AGAIN),
    # -- EAGLE ---------------------------------------------------------------------------------------------------------
    "eagle-bias-vllm": Explanation(
        "silent", "vLLM's EAGLE has no bias in fc and leaves it out.",
        "Train the head without, or serve it with SGLang."),
    "eagle-bias-missing": Explanation(
        "silent", "SGLang's fc always has a bias, which stays at random values.", "Write zeros as `fc.bias`."),
    "eagle-head": Explanation(
        "load", "EAGLE has no norm and no head of its own; the name is unknown there.", "Leave the tensor out."),
    "eagle-input-norm": Explanation(
        "load", "EAGLE's first layer has no norm in front; the name is unknown there.", "Leave the tensor out."),
    "layer-count": Explanation(
        "silent", "Config and file disagree on the number of layers; the engine builds what config.json says.",
        "Write `num_hidden_layers: 1`, or export all layers under the names of this engine."),
    # -- EAGLE-3 -------------------------------------------------------------------------------------------------------
    "d2t-missing": Explanation(
        "silent", "Draft token i is then taken for the target's token i, and nothing is accepted.",
        "Write the map. " + _AGAIN),
    "d2t-ids": Explanation(
        "silent", "`d2t` has to hold offsets: the target's token is i + d2t[i]. Ids there name other tokens.",
        "Subtract 0, 1, 2, … from it."),
    "t2d-differs": Explanation(
        "silent", "`t2d` and `d2t` name different tokens, so one of them is of another head.", _AGAIN),
    "map-needless": Explanation(
        "doubt", "The head scores the whole vocabulary, so a map can only do harm.", "Leave d2t and t2d out."),
    "draft-vocab-missing": Explanation(
        "load", "SGLang reads `draft_vocab_size` directly; vLLM takes the whole vocabulary without it.",
        "Write the number of rows of lm_head."),
    "draft-vocab-size": Explanation(
        "load", "The output head has another number of rows than `draft_vocab_size`.",
        "Write the number of rows of lm_head."),
    "layer-ids-convention": Explanation(
        "silent", "The list is in the other engine's convention, so every state is read one layer off.",
        "vLLM: the layer whose input is read; SGLang: one less. " + _AGAIN),
    "layer-ids-order": Explanation(
        "doubt",
        "Engines join the states from low to high whatever the list's order; if the columns of fc follow the list, "
        "they meet other states.",
        "List each layer once from low to high, with the columns of fc in that order.",
    ),
    "layer-ids-count": Explanation(
        "load", "fc joins another number of states than the list has layers.", "List as many layers as fc joins."),
    "layer-ids-range": Explanation(
        "load", "The target has no such layer.", "List layers of this target. " + _AGAIN),
    "layer-ids-differ": Explanation(
        "silent", "The lists at the top level and in eagle_config differ; which one counts depends on the engine.",
        "Write the same list in both places."),
    "layer-ids-missing": Explanation(
        "silent", "Without a list the engine reads the layers 2, L // 2 and L - 3.", "Write the list. " + _AGAIN),
    "num-aux-missing": Explanation(
        "doubt", "vLLM takes three states for fc unless eagle_config or num_aux_hidden_states says otherwise.",
        "Write the list into eagle_config too."),
    "aux-off": Explanation(
        "silent", "`use_aux_hidden_state: false` hands the last state over and leaves fc out.",
        "Write true for a head with fc."),
    "residual-norm-missing": Explanation(
        "silent", "vLLM takes `norm_before_residual` for true in this format when it is absent.",
        "Write it, false for heads as published."),
    "norm-unsupported": Explanation(
        "silent", "SGLang's EAGLE-3 does not know this option and leaves the norm out.",
        "Serve the head with vLLM, or train it without."),
    "norms-exclusive": Explanation(
        "load", "`norm_before_fc` and `fc_norm` exclude each other.", "Set the one that the head was trained with."),
    "norm-option-off": Explanation(
        "load", "The norm's weights are in the file, but config.json does not ask for them.",
        "Set `norm_before_fc` or `fc_norm` to true."),
    "midlayer-names": Explanation(
        "silent", "SGLang knows the layer as `midlayer.` only and skips `layers.0.` without a word.",
        "Rename `layers.0.` to `midlayer.`. " + _AGAIN),
    "rope-theta-missing": Explanation(
        "silent", "Readers that find no `rope_theta` at the top level take 10000.",
        "Write the target's rope_theta at the top level."),
    "rope-theta-differs": Explanation(
        "silent", "Two values of rope_theta; which one counts depends on the reader.", "Write the same twice."),
    "rope-differs": Explanation(
        "doubt", "The drafter turns positions at another rate than the target.",
        "Copy the target's rope_theta unless the head was trained with another."),
    "tie-embeddings": Explanation(
        "silent", "SGLang then scores with the embedding instead of the head's own output rows.",
        "Write `tie_word_embeddings: false`."),
    "attention-bias": Explanation(
        "load", "`attention_bias` and the biases in the file do not belong together.",
        "Say true when there are biases of q, k and v in the file, else false."),
    "embedding-missing": Explanation(
        "load", "The drafter is of another width than the target, so the target's embedding can't be shared.",
        "Write the drafter's own embed_tokens."),
    "fc-bias": Explanation(
        "silent", "`bias: true` gives fc a bias that is not in the file and stays random.", "Write `bias: false`."),
    # -- speculators ---------------------------------------------------------------------------------------------------
    "speculators-section": Explanation(
        "load", "vLLM needs this part of the speculators format.", "Add it. " + _AGAIN),
    "speculators-sglang": Explanation(
        "load", "SGLang does not read this format: the layer's sizes stand where it does not look.",
        "Import the head and export it for sglang."),
    "speculators-layer-type": Explanation(
        "load", "vLLM maps the draft layer by its model_type and knows llama and qwen3 only.",
        "Write the model_type into transformer_layer_config."),
}  # fmt: skip
