"""What can go wrong with Medusa heads in vLLM besides a tensor that does not fit."""

from __future__ import annotations

import re
from typing import Any

import torch

from backend.formats.check_tensors import Case, compare
from backend.formats.tables import Sizes

_HEAD = re.compile(r"(?:blocks\.)?(\d+)\.(?:layers\.)?(\d+)\.(?:linear\.)?(?:weight|bias)")
_OUTPUT = re.compile(r"\d+\.\d+\.weight")
_OWN_HEADS = ("num_heads", "medusa_num_heads")
_OWN_LAYERS = ("num_hidden_layers", "medusa_num_layers")


def check_medusa(case: Case) -> None:
    case.keys()
    _check_keys(case)
    config, book = case.config, case.book
    heads, blocks = _in_file(case)
    said = _first(config, _OWN_HEADS, heads)
    if said < heads:
        book.add("medusa-heads-count", "num_heads", f"{said}, but the file holds {heads} heads")
    elif said > heads and not any(heads <= _number(name) for name in case.tensors):
        book.add("tensor-missing", f"blocks.{heads}.layers.0.weight", f"{said} heads are named, {heads} there", "load")
    blocks = _first(config, _OWN_LAYERS, blocks)
    width, whole = _sizes_said(case)
    shared = bool(config.get("original_lm_head", False))
    tokens = case.tensors.get("token_map")
    _check_map(case, whole, shared)
    biased = any(name.endswith(".bias") for name in case.tensors)
    _check_bias(case, biased)
    mapped = tokens is not None and shared
    flags = {name for name, on in (("bias", biased), ("shared", shared), ("map", tokens is not None)) if on}
    if not any("lm_head" in name or _OUTPUT.fullmatch(name) for name in case.tensors):
        book.add("medusa-no-output", "lm_head.weight", "no output layer is in the file")
        told = {"lm_head": ""}
    else:
        told = {"token_map": ""} if tokens is None else {}
    drafted = len(tokens) if mapped and tokens is not None else whole
    compare(_without_whole_rows(case, drafted), Sizes(
        width, whole, drafted, heads=heads, blocks=blocks, flags=frozenset(flags),
    ), explained=told | ({} if mapped or tokens is None else {"token_map": ""}))  # fmt: skip


def _sizes_said(case: Case) -> tuple[int, int]:
    """Width and vocabulary of config.json; where it does not say, those of the file."""
    stored = sorted(case.tensors.items())
    first = next((one for name, one in stored if _is_block(name) and one.dim() == 2), None)
    rows = next((one for name, one in stored if "lm_head" in name or _OUTPUT.fullmatch(name)), None)
    width = int(case.config.get("hidden_size") or (1 if first is None else first.shape[0]))
    usual = case.facts.vocab_size if case.facts else 1
    return width, int(case.config.get("vocab_size") or (usual if rows is None else rows.shape[0]))


def _check_keys(case: Case) -> None:
    """vLLM renames keys by the words in them, whatever they mean."""
    for key in case.config:
        if "num" in key and "heads" in key and key not in _OWN_HEADS:
            case.book.add("medusa-heads-key", key, f"{case.config[key]} would be the number of Medusa heads")
        if "num" in key and "layers" in key and key not in _OWN_LAYERS:
            case.book.add("medusa-layers-key", key, f"{case.config[key]} would be the blocks of a head")


def _check_bias(case: Case, biased: bool) -> None:
    says = bool(case.config.get("medusa_fc_bias", False))
    if biased and not says:
        case.book.add("medusa-bias-dropped", "medusa_fc_bias", "the file holds biases")
    if says and not biased:
        case.book.add("medusa-bias-missing", "medusa_fc_bias", "the file holds no bias")


def _check_map(case: Case, whole: int, shared: bool) -> None:
    tokens, said = case.tensors.get("token_map"), case.config.get("truncated_vocab_size")
    if tokens is None:
        if isinstance(said, int) and said != whole:
            case.book.add("medusa-map-size", "truncated_vocab_size", f"{said}, but there is no token_map")
        return
    if said != whole:
        case.book.add("medusa-map", "token_map", f"a map of {len(tokens)} tokens")
    if not shared:
        case.book.add("medusa-map-unshared", "token_map", "the heads have separate output layers")
    if said != len(tokens):
        case.book.add("medusa-map-size", "truncated_vocab_size", f"{said}, but token_map names {len(tokens)} tokens")
    check_tokens(case, "token_map", tokens, whole)


def check_tokens(case: Case, name: str, tokens: torch.Tensor, whole: int) -> None:
    """Target tokens of a map: inside the vocabulary, each once."""
    if tokens.is_floating_point():
        return  # the wrong dtype is told elsewhere
    outside = int(((tokens < 0) | (tokens >= whole)).sum())
    if outside:
        case.book.add("map-range", name, f"{outside} of its tokens are not among 0 to {whole - 1}")
    elif len(tokens.unique()) != len(tokens):
        case.book.add("map-duplicate", name, f"{len(tokens) - len(tokens.unique())} tokens are named again")


def _without_whole_rows(case: Case, drafted: int) -> Case:
    """vLLM cuts output rows of the whole vocabulary by the map itself, so those are right too."""
    tokens = case.tensors.get("token_map")
    if tokens is None or not case.config.get("original_lm_head"):
        return case
    cut = {n: one[:drafted] if "lm_head" in n and len(one) > drafted else one for n, one in case.tensors.items()}
    return Case(case.layout, case.config, cut, case.note, case.facts, case.book)


def _in_file(case: Case) -> tuple[int, int]:
    found = [(int(m[1]), int(m[2])) for n in case.tensors if (m := _HEAD.fullmatch(n)) and _is_block(n)]
    return 1 + max((head for head, _ in found), default=-1), 1 + max((block for _, block in found), default=-1)


def _is_block(name: str) -> bool:
    return "linear" in name or name.startswith("blocks.")


def _number(name: str) -> int:
    match = _HEAD.fullmatch(name)
    return int(match[1]) if match and _is_block(name) else -1


def _first(config: Any, names: tuple[str, ...], usual: int) -> int:
    return next((int(config[name]) for name in names if name in config), usual)
