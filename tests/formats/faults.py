"""Faults to plant in good exports, one of every kind that the format pages name, and the explanation each must get."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from backend.formats.export import export_drafter
from backend.formats.parts import ExportOptions
from tests.formats import made

Config, Tensors = dict[str, Any], dict[str, Tensor]
Plant = Callable[[Config, Tensors], None]

#: good exports: name -> (family, how the drafter is made, options)
GOOD: dict[str, tuple[str, Callable[[], Any], ExportOptions]] = {
    "medusa": ("medusa", made.medusa, ExportOptions("vllm")),
    "medusa-separate": ("medusa", lambda: made.medusa(shared=False, vocabulary=None), ExportOptions("vllm")),
    "eagle": ("eagle", lambda: made.eagle(None), ExportOptions("vllm")),
    "eagle-sglang": ("eagle", lambda: made.eagle(None), ExportOptions("sglang", embedding=True)),
    "eagle3": ("eagle3", made.eagle3, ExportOptions("vllm")),
    "eagle3-full": ("eagle3", lambda: made.eagle3(260, norm_before_fc=True), ExportOptions("vllm", embedding=True)),
    "eagle3-sglang": ("eagle3", made.eagle3, ExportOptions("sglang")),
    "eagle3-speculators": ("eagle3", made.eagle3, ExportOptions("vllm", speculators=True)),
    "hydra": ("hydra", made.hydra, ExportOptions("hydra")),
    "hydra-plus": ("hydra", lambda: made.hydra(prefixed=True), ExportOptions("hydra")),
    "mtp": ("mtp", made.mtp, ExportOptions("vllm")),
}
#: what faults are planted into: the good ones, and one that is right in itself but that vLLM refuses
SOURCES = GOOD | {"medusa-map": ("medusa", made.medusa, ExportOptions("vllm", full_head=False))}


@dataclass(frozen=True)
class Fault:
    """`note`: whether what Headway wrote beside the export is still there."""

    good: str
    plant: Plant
    finding: str
    effect: str
    note: bool = True


def good_export(folder: Path, name: str) -> Path:
    family, make, options = SOURCES[name]
    made.stored(folder / f"{name}-own", family, make())
    export_drafter(folder / f"{name}-own", folder / name, options, made.facts(), loaded=made.loaded())
    return folder / name


def planted(folder: Path, good: Path, fault: Fault) -> Path:
    """A copy of a good export with the fault in it."""
    config, tensors = json.loads((good / "config.json").read_text()), load_file(good / "model.safetensors")
    fault.plant(config, tensors)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: one.contiguous().clone() for name, one in tensors.items()}, folder / "model.safetensors")
    if fault.note:
        (folder / "headway_export.json").write_text((good / "headway_export.json").read_text())
    return folder


def key(name: str, value: Any, inside: str = "") -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        (config[inside] if inside else config)[name] = value

    return plant


def no_key(name: str, inside: str = "") -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        del (config[inside] if inside else config)[name]

    return plant


def tensor(name: str, make: Callable[[Tensors], Tensor]) -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        tensors[name] = make(tensors)

    return plant


def no_tensor(name: str) -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        del tensors[name]

    return plant


def both(*plants: Plant) -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        for one in plants:
            one(config, tensors)

    return plant


def renamed(before: str, after: str) -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        for name in [name for name in tensors if name.startswith(before)]:
            tensors[after + name.removeprefix(before)] = tensors.pop(name)

    return plant


def ids(*numbers: int) -> Plant:
    def plant(config: Config, tensors: Tensors) -> None:
        where = "eagle_aux_hidden_state_layer_ids"
        for place in (config, config.get("eagle_config", {})):
            if where in place:
                place[where] = list(numbers)

    return plant


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Plant:
    return tensor(name, lambda tensors: change(tensors[name]))


def with_nan(one: Tensor) -> Tensor:
    return one.index_fill(0, torch.tensor([0]), float("nan"))


def without(config: Config, tensors: Tensors) -> None:
    for name in [name for name in tensors if name.startswith("lm_head")]:
        del tensors[name]


def no_biases(config: Config, tensors: Tensors) -> None:
    for name in [name for name in tensors if name.endswith(".bias")]:
        del tensors[name]


MTP = "model.mtp_layers.0."
IDS = "eagle_aux_hidden_state_layer_ids"
FAULTS: dict[str, Fault] = {
    # Medusa in vLLM
    "biases dropped": Fault("medusa", no_key("medusa_fc_bias"), "medusa-bias-dropped", "silent"),
    "no biases": Fault("medusa", no_biases, "medusa-bias-missing", "load"),
    "attention heads in the config": Fault("medusa", key("num_attention_heads", 9), "medusa-heads-key", "load"),
    "target's layers in the config": Fault("medusa", key("num_target_layers", 30), "medusa-layers-key", "load"),
    "block missing": Fault("medusa", no_tensor("blocks.1.layers.0.weight"), "tensor-missing", "load"),
    "unknown name": Fault("medusa", renamed("blocks.2.layers.1.", "blocks.2.layer.1."), "tensor-unknown", "silent"),
    "fewer heads named": Fault("medusa", key("num_heads", 2), "medusa-heads-count", "silent"),
    "version 2 without output": Fault("medusa-separate", without, "medusa-no-output", "load"),
    "a map": Fault("medusa-map", lambda config, tensors: None, "medusa-map", "load"),
    "map beside separate layers": Fault("medusa-map", key("original_lm_head", False), "medusa-map-unshared", "load"),
    "size of the map": Fault("medusa-map", key("truncated_vocab_size", 260), "medusa-map-size", "load"),
    "map out of range": Fault("medusa-map", changed("token_map", lambda t: t + 250), "map-range", "load"),
    "map names twice": Fault("medusa-map", changed("token_map", lambda t: t // 2 * 2), "map-duplicate", "silent"),
    "map of floats": Fault("medusa-map", changed("token_map", lambda t: t.float()), "tensor-dtype", "load"),
    "a head saved twice": Fault(
        "medusa", tensor("blocks.1.layers.0.weight", lambda t: t["blocks.0.layers.0.weight"]), "tensors-identical",
        "silent",
    ),
    "never trained": Fault("medusa", changed("blocks.0.layers.0.weight", torch.zeros_like), "tensor-zero", "silent"),
    "both names": Fault(
        "medusa", tensor("0.0.linear.weight", lambda t: t["blocks.0.layers.0.weight"]), "tensor-twice", "doubt"
    ),
    "a NaN": Fault("medusa", changed("lm_head.weight", with_nan), "tensor-not-finite", "silent"),
    "width": Fault("medusa", key("hidden_size", 32), "hidden-size", "load"),
    # EAGLE
    "bias in vLLM": Fault("eagle", tensor("fc.bias", lambda t: torch.ones(64)), "eagle-bias-vllm", "silent"),
    "no bias in SGLang": Fault("eagle-sglang", no_tensor("fc.bias"), "eagle-bias-missing", "silent"),
    "norm in front": Fault(
        "eagle", tensor("layers.0.input_layernorm.weight", lambda t: torch.ones(64)), "eagle-input-norm", "load"
    ),
    "head in EAGLE": Fault("eagle", tensor("lm_head.weight", lambda t: torch.ones(260, 64)), "eagle-head", "load"),
    "name of the class": Fault("eagle-sglang", key("architectures", ["LlamaForCausalLM"]), "architecture", "load"),
    "tie missing": Fault("eagle-sglang", no_key("tie_word_embeddings"), "config-key-missing", "load"),
    "heads in the config": Fault("eagle", key("num_attention_heads", 8), "tensor-shape", "load"),
    "matrix missing": Fault("eagle", no_tensor("layers.0.mlp.up_proj.weight"), "tensor-missing", "silent"),
    "another embedding": Fault(
        "eagle-sglang", changed("embed_tokens.weight", lambda t: t * 2), "embedding-differs", "doubt"
    ),
    "another target's vocabulary": Fault("eagle", key("vocab_size", 300), "vocab-size", "load"),
    "short context": Fault("eagle", key("max_position_embeddings", 512), "context-short", "doubt"),
    "another rate of rotation": Fault(
        "eagle", both(key("rope_theta", 5e5), key("rope_theta", 5e5, "rope_parameters")), "rope-differs", "doubt"
    ),
    "two layers named": Fault("eagle", key("num_hidden_layers", 2), "layer-count", "silent"),
    # EAGLE-3
    "no map": Fault("eagle3", both(no_tensor("d2t"), no_tensor("t2d")), "d2t-missing", "silent"),
    "ids for offsets": Fault("eagle3", changed("d2t", lambda t: t + torch.arange(len(t))), "d2t-ids", "silent"),
    "offsets out of range": Fault("eagle3", changed("d2t", lambda t: t + 250), "map-range", "load"),
    "offsets that repeat": Fault(
        "eagle3", changed("d2t", lambda t: torch.cat([t[:1], t[:1] - 1, t[2:]])), "map-duplicate", "silent"
    ),
    "marks of another map": Fault("eagle3", changed("t2d", lambda t: t.roll(1)), "t2d-differs", "silent"),
    "map for everything": Fault(
        "eagle3-full", tensor("d2t", lambda t: torch.arange(260).flip(0) - torch.arange(260)), "map-needless", "doubt"
    ),
    "no draft vocabulary": Fault("eagle3-sglang", no_key("draft_vocab_size"), "draft-vocab-missing", "load"),
    "rows of the head": Fault("eagle3-full", key("draft_vocab_size", 259), "draft-vocab-size", "load"),
    "layers as SGLang counts": Fault("eagle3", ids(1, 3, 4), "layer-ids-convention", "silent"),
    "layers as vLLM counts": Fault("eagle3-sglang", ids(2, 4, 5), "layer-ids-convention", "silent"),
    "layers as SGLang counts, nothing noted": Fault("eagle3", ids(1, 3, 4), "layer-ids-convention", "silent", False),
    "layers in no order": Fault("eagle3", ids(5, 4, 2), "layer-ids-order", "doubt"),
    "layers that are not there": Fault("eagle3", ids(2, 4, 9), "layer-ids-range", "load"),
    "too few layers": Fault("eagle3", ids(2, 5), "layer-ids-count", "load"),
    "a layer twice": Fault("eagle3", ids(2, 4, 4), "layer-ids-count", "load"),
    "two lists": Fault("eagle3", key(IDS, [1, 4, 6]), "layer-ids-differ", "silent"),
    "no states": Fault("eagle3", key("use_aux_hidden_state", False, "eagle_config"), "aux-off", "silent"),
    "residual": Fault("eagle3-speculators", no_key("norm_before_residual"), "residual-norm-missing", "silent"),
    "norm in SGLang": Fault("eagle3-sglang", key("norm_output", True), "norm-unsupported", "silent"),
    "both norms": Fault("eagle3-full", key("fc_norm", True), "norms-exclusive", "load"),
    "norm not asked for": Fault("eagle3-full", key("norm_before_fc", False), "norm-option-off", "load"),
    "names for vLLM": Fault("eagle3-sglang", renamed("midlayer.", "layers.0."), "midlayer-names", "silent"),
    "rotation not at the top": Fault("eagle3", no_key("rope_theta"), "rope-theta-missing", "silent"),
    "two rotations": Fault(
        "eagle3", key("rope_theta", 123.0, "rope_parameters"), "rope-theta-differs", "silent"
    ),
    "tied": Fault("eagle3-sglang", key("tie_word_embeddings", True), "tie-embeddings", "silent"),
    "attention with bias": Fault("eagle3", key("attention_bias", True), "attention-bias", "load"),
    "bias of fc": Fault("eagle3-sglang", key("bias", True), "fc-bias", "silent"),
    "width of queries": Fault(
        "eagle3", changed("midlayer.self_attn.q_proj.weight", lambda t: t[:, :64]), "tensor-shape", "load"
    ),
    # MTP inside its target
    "biases of a Qwen2": Fault("mtp", no_tensor(f"{MTP}self_attn.q_proj.bias"), "tensor-missing", "silent"),
    "name of MTP": Fault("mtp", renamed(f"{MTP}input_proj.", f"{MTP}proj."), "tensor-unknown", "load"),
    "number of modules": Fault("mtp", key("num_nextn_predict_layers", 2), "layer-count", "silent"),
    "type of the target": Fault("mtp", key("architectures", ["Qwen2ForCausalLM"]), "architecture", "load"),
    # speculators
    "K missing": Fault(
        "eagle3-speculators", no_key("proposal_methods", "speculators_config"), "speculators-section", "load"
    ),
    "no verifier": Fault("eagle3-speculators", no_key("verifier", "speculators_config"), "speculators-section", "load"),
    "kind of layer": Fault(
        "eagle3-speculators", no_key("model_type", "transformer_layer_config"), "speculators-layer-type", "load"
    ),
}  # fmt: skip
