"""What can go wrong with EAGLE and EAGLE-3 heads in vLLM and SGLang besides a tensor that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from backend.formats.check_medusa import check_tokens
from backend.formats.check_tensors import Case, compare
from backend.formats.export_layers import NORMS
from backend.formats.layer_ids import listed, usual_layers
from backend.formats.tables import Row, Sizes, eagle3_rows, sglang_eagle3_rows
from backend.formats.vocabulary import agrees, holds_ids, tokens_of

_NORM_TENSORS = {"input_norm.": "norm-option-off", "fc_norm.": "norm-option-off"}


def check_eagle(case: Case) -> None:
    if not case.keys():
        return
    _check_rope(case)
    _check_layers(case, "layers.")
    sglang, config = case.layout.engine == "sglang", case.config
    bias = case.tensors.get("fc.bias")
    told = dict.fromkeys(("lm_head.",) if sglang else (), "")  # SGLang skips a head without harm
    if sglang:
        told["fc.bias"] = "eagle-bias-missing"
    elif bias is not None and not bool(bias.any()):
        told["fc.bias"] = ""  # a bias of zeros is ignored without harm
    told |= _bias_words(case, config)
    vocabulary = int(config["vocab_size"])
    compare(case, layer_sizes(config, vocabulary, {"fc_bias"} if sglang else set()), explained=told)


def check_eagle3(case: Case) -> None:
    if case.speculators:
        _check_speculators(case)
    if not case.keys():
        return
    config = case.layer_config()
    _check_rope(case)
    _check_norms(case)
    _check_layer_ids(case)
    _check_flags(case, config)
    vocabulary = int(config["vocab_size"])
    rows = case.tensors.get("lm_head.weight")
    scored = vocabulary if rows is None else len(rows)
    drafted = int(config.get("draft_vocab_size", scored) or vocabulary)
    prefix = _check_names(case)
    _check_layers(case, "layers." if prefix == "layers.0." else "additional_layers.")
    _check_map(case, vocabulary, drafted)
    flags = {name for name, key in (("input_norm", "norm_before_fc"), ("fc_norm", "fc_norm")) if case.config.get(key)}
    target_width = int(config.get("target_hidden_size") or config["hidden_size"])
    fc = case.tensors.get("fc.weight")
    states = 3 if fc is None or fc.dim() != 2 else max(1, fc.shape[1] // target_width)
    sizes = layer_sizes(config, vocabulary, flags, drafted, states, target_width)
    told = {"d2t": "", "t2d": "", **_bias_words(case, config)}
    if not flags & {"input_norm", "fc_norm"}:
        told |= _NORM_TENSORS
    if case.layout.engine == "sglang":
        told |= {"fc.bias": "", "layers.0.": "midlayer-names"}
        if prefix != "midlayer.":
            told["midlayer."] = ""  # said once, by the names it has
    if int(config["hidden_size"]) != target_width:
        told["embed_tokens."] = "embedding-missing"
    compare(case, sizes, _rows_with(prefix, case.layout.engine), told)


def check_mtp(case: Case) -> None:
    """MiMo's module inside its target's checkpoint; the target's own tensors are the engine's to check."""
    if not case.keys():
        return
    _check_rope(case)
    tensors = {name: one for name, one in case.tensors.items() if name.startswith("model.mtp_layers.")}
    modules = len({name.split(".")[2] for name in tensors})
    if case.config.get("num_nextn_predict_layers", modules) != modules:
        said = case.config["num_nextn_predict_layers"]
        case.book.add("layer-count", "num_nextn_predict_layers", f"{said}, but the file holds {modules}")
    first = {name: one for name, one in tensors.items() if name.startswith("model.mtp_layers.0.")}
    config = {**case.config, "attention_bias": True}  # a Qwen2's layer has them
    sizes = layer_sizes(config, int(config["vocab_size"]), set())
    compare(replace(case, tensors=first), sizes)


def layer_sizes(
    config: Mapping[str, Any], vocabulary: int, flags: set[str], drafted: int = 0, states: int = 1, target: int = 0
) -> Sizes:
    """Sizes as the engine reads them."""
    width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    if config.get("attention_bias"):
        flags = flags | {"attention_bias"}
    return Sizes(
        width=width, vocabulary=vocabulary, draft_vocabulary=drafted or vocabulary, target_width=target or width,
        states=states, inner=int(config["intermediate_size"]), query_heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or width // heads), flags=frozenset(flags),
    )  # fmt: skip


def _bias_words(case: Case, config: Mapping[str, Any]) -> dict[str, str]:
    """attention_bias and biases in the file explain each other; `*` is part of a name."""
    return {"*_proj.bias": "attention-bias"}


def _rows_with(prefix: str, engine: str) -> Any:
    if engine == "sglang":
        return sglang_eagle3_rows

    def rows(sizes: Sizes) -> tuple[Row, ...]:
        return eagle3_rows(sizes, prefix, ("midlayer." if prefix == "layers.0." else "layers.0.",))

    return rows


def _check_names(case: Case) -> str:
    """The prefix of the first layer; SGLang's is midlayer alone."""
    midlayer = any(name.startswith("midlayer.") for name in case.tensors)
    if case.layout.engine == "sglang" and not midlayer:
        case.book.add("midlayer-names", "layers.0.", "the layer is stored as layers.0.")
    return "midlayer." if midlayer else "layers.0."


def _check_layers(case: Case, further: str) -> None:
    said = case.layer_config().get("num_hidden_layers", 1)
    others = {name.split(".")[1] for name in case.tensors if name.startswith(further) and name.count(".") > 1}
    found = 1 + len(others - {"0"})
    if said != found:
        case.book.add("layer-count", "num_hidden_layers", f"{said}, but the file holds {found}")


def _check_rope(case: Case) -> None:
    config = case.layer_config()
    theta = config.get("rope_theta")
    inner = config.get("rope_parameters") or config.get("rope_scaling") or {}
    nested = inner.get("rope_theta") if isinstance(inner, Mapping) else None
    if theta is None:
        case.book.add("rope-theta-missing", "rope_theta", f"only {nested} inside rope_parameters" if nested else "none")
    elif nested is not None and float(nested) != float(theta):
        case.book.add("rope-theta-differs", "rope_theta", f"{theta} and {nested}")
    facts, value = case.facts, theta if theta is not None else nested
    if facts is not None and value is not None and abs(float(value) - facts.rope_theta) > 1e-6 * facts.rope_theta:
        case.book.add("rope-differs", "rope_theta", f"{value}, {facts.name} has {facts.rope_theta:g}")


def _check_norms(case: Case) -> None:
    config, book = case.config, case.book
    if config.get("norm_before_fc") and config.get("fc_norm"):
        book.add("norms-exclusive", "norm_before_fc", "both norms are asked for")
    if case.layout.engine == "sglang":
        for name in NORMS:
            if config.get(name):
                book.add("norm-unsupported", name, "it is asked for")
    if case.speculators and "norm_before_residual" not in config:
        book.add("residual-norm-missing", "norm_before_residual", "the key is missing")


def _check_flags(case: Case, config: Mapping[str, Any]) -> None:
    book, sglang = case.book, case.layout.engine == "sglang"
    inner = case.config.get("eagle_config")
    if isinstance(inner, Mapping) and inner.get("use_aux_hidden_state") is False and "fc.weight" in case.tensors:
        book.add("aux-off", "eagle_config.use_aux_hidden_state", "false, but the file holds fc.weight")
    if sglang and config.get("tie_word_embeddings"):
        book.add("tie-embeddings", "tie_word_embeddings", "true")
    if sglang and config.get("bias") and "fc.bias" not in case.tensors:
        book.add("fc-bias", "bias", "true, but the file holds no fc.bias")


def _check_layer_ids(case: Case) -> None:
    ids, _ = listed(case.config)
    book, facts, sglang = case.book, case.facts, case.layout.engine == "sglang"
    where = "eagle_aux_hidden_state_layer_ids"
    noted = [int(one) for one in case.note.get("reads") or []]
    if ids is None:
        if noted and facts is not None and noted != usual_layers(facts.num_layers):
            book.add("layer-ids-missing", where, f"the head reads {noted}")
        return
    inner = (case.config.get("eagle_config") or {}).get(where)
    top = case.config.get(where)
    if top and inner and list(top) != list(inner):
        book.add("layer-ids-differ", where, f"{list(top)} and {list(inner)}")
    meant = [one + 1 for one in ids] if sglang else ids
    if ids != sorted(set(ids)):
        book.add("layer-ids-order", where, f"{ids}")
    elif _in_other_convention(meant, noted, facts.num_layers if facts else None, sglang):
        book.add("layer-ids-convention", where, f"{ids}")
    lowest, beyond = (1, 0) if sglang else (0, 1)
    if facts is not None and not all(lowest <= one < facts.num_layers + beyond for one in meant):
        book.add("layer-ids-range", where, f"{ids}, {facts.name} has {facts.num_layers} layers")
    _check_count(case, ids, where)
    if (
        not sglang
        and not case.speculators
        and not inner
        and len(ids) != 3
        and "num_aux_hidden_states" not in case.config
    ):
        book.add("num-aux-missing", where, f"{len(ids)} layers, listed at the top level alone")


def _in_other_convention(meant: list[int], noted: list[int], num_layers: int | None, sglang: bool) -> bool:
    """Whether the layers that the engine will read are one off: from the note of the export, else from the usual
    triple.
    """
    shift = -1 if sglang else 1
    if noted:
        return meant != noted and [one + shift for one in meant] == noted
    return num_layers is not None and [one + shift for one in meant] == usual_layers(num_layers)


def _check_count(case: Case, ids: list[int], where: str) -> None:
    if len(set(ids)) != len(ids):
        case.book.add("layer-ids-count", where, f"{ids} names a layer twice, which is read once")
    fc = case.tensors.get("fc.weight")
    config = case.layer_config()
    width = int(config.get("target_hidden_size") or config["hidden_size"])
    if fc is not None and fc.dim() == 2 and fc.shape[1] != len(ids) * width:
        case.book.add("layer-ids-count", where, f"{len(ids)} layers, but fc joins {fc.shape[1] / width:g} states")
    if case.layout.engine == "sglang" and len(ids) != 3:
        case.book.add("layer-ids-count", where, f"{len(ids)} layers; SGLang always reads three")


def _check_map(case: Case, vocabulary: int, drafted: int) -> None:
    d2t, t2d, book = case.tensors.get("d2t"), case.tensors.get("t2d"), case.book
    if drafted == vocabulary:
        if d2t is not None and bool(d2t.any()):
            book.add("map-needless", "d2t", "the whole vocabulary is scored")
        return
    if d2t is None:
        book.add("d2t-missing", "d2t", f"{drafted} of {vocabulary} tokens are scored")
        return
    if d2t.dtype not in (torch.int64, torch.int32):
        book.add("tensor-dtype", "d2t", f"it is {str(d2t.dtype).removeprefix('torch.')}")
        return
    if d2t.shape != (drafted,):
        book.add("tensor-shape", "d2t", f"it is {list(d2t.shape)}, and config.json makes it [{drafted}]")
        return
    if holds_ids(d2t, t2d, vocabulary):
        book.add("d2t-ids", "d2t", "it holds token ids")
        return
    check_tokens(case, "d2t", tokens_of(d2t), vocabulary)
    if t2d is not None and not any(one.where == "d2t" for one in book.findings) and not agrees(d2t, t2d, vocabulary):
        book.add("t2d-differs", "t2d", "it marks other tokens than d2t names")


def _check_speculators(case: Case) -> None:
    config, book = case.config, case.book
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, Mapping):
        book.add("speculators-section", "transformer_layer_config", "the section is missing")
    elif layer.get("model_type") not in ("llama", "qwen3"):
        book.add("speculators-layer-type", "transformer_layer_config.model_type", f"{layer.get('model_type')}")
    section = config.get("speculators_config")
    section = section if isinstance(section, Mapping) else {}
    methods = section.get("proposal_methods")
    first = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], Mapping) else {}
    if not isinstance(first.get("speculative_tokens"), int):
        book.add("speculators-section", "speculators_config.proposal_methods", "no speculative_tokens")
    verifier = section.get("verifier")
    if not (isinstance(verifier, Mapping) and verifier.get("name_or_path")):
        book.add("speculators-section", "speculators_config.verifier", "no name_or_path")
