"""Tensors against the table of the engine, and the few config keys that all families share. Knows no family's traps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from backend.formats.facts import TargetFacts
from backend.formats.findings import Book, Effect
from backend.formats.tables import Layout, Row, Sizes

STORABLE: Final = (torch.float32, torch.bfloat16, torch.float16)
#: keys without which a folder can still be compared
NO_SIZES: Final = ("draft_vocab_size", "tie_word_embeddings", "num_nextn_predict_layers")
#: keys whose absence has an explanation of its own
OWN_IDS: Final = {"draft_vocab_size": "draft-vocab-missing"}


@dataclass(frozen=True)
class Case:
    """One folder that is checked for one engine."""

    layout: Layout
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    note: Mapping[str, Any]
    facts: TargetFacts | None
    book: Book

    @property
    def speculators(self) -> bool:
        return "speculators_model_type" in self.config

    def layer_config(self) -> Mapping[str, Any]:
        """The keys of the draft layer, wherever they stand."""
        inner = self.config.get("transformer_layer_config")
        return {**self.config, **inner} if isinstance(inner, Mapping) else self.config

    def keys(self) -> bool:
        """Report config keys that are missing; whether those are there that tensors' shapes follow from."""
        merged = self.layer_config()
        missing = [key for key in self.layout.keys if key not in merged]
        for key in missing:
            self.book.add(OWN_IDS.get(key, "config-key-missing"), key, "the key is missing")
        return set(missing) <= set(NO_SIZES)


def check_architecture(case: Case) -> None:
    if case.speculators and case.layout.engine == "sglang":
        case.book.add("speculators-sglang", "speculators_model_type", "the folder is in the speculators format")
    if not case.layout.architectures or case.speculators:
        return
    names = case.config.get("architectures")
    named = names if isinstance(names, Sequence) and not isinstance(names, str) else []
    if not any(name in case.layout.architectures for name in named):
        if not named and case.layout.family == "medusa":
            return  # vLLM knows Medusa by its model_type
        case.book.add("architecture", "architectures", f"{list(named)}, not {case.layout.architectures[0]}")


def compare(
    case: Case,
    sizes: Sizes,
    make_rows: Callable[[Sizes], tuple[Row, ...]] | None = None,
    explained: Mapping[str, str] | None = None,
) -> None:
    """Every tensor of the table against the file and back.

    explained: part of a name -> id of the finding that says it better, for missing and for unknown tensors.
    """
    rows = (make_rows or case.layout.rows)(sizes)
    told = {**(case.layout.refused or {}), **(explained or {})}
    known: set[str] = set()
    for row in rows:
        names = [name for name in (row.name, *row.aliases) if name in case.tensors]
        known.update(names)
        if not names and row.needed:
            effect: Effect = "load" if case.layout.missing == "load" else "silent"
            _explain(case, row.name, "it is not in the file", told, "tensor-missing", effect)
        if len(names) > 1:
            case.book.add("tensor-twice", row.name, f"stored as {' and '.join(names)}")
        for name in names[:1]:
            _check_one(case, name, row)
    for name in sorted(case.tensors.keys() - known):
        effect = "load" if case.layout.unknown == "load" else "silent"
        _explain(case, name, "the engine knows no tensor of this name", told, "tensor-unknown", effect)
    _check_copies(case, [row for row in rows if row.name in case.tensors])


def _explain(case: Case, name: str, what: str, told: Mapping[str, str], usual: str, effect: Effect) -> None:
    for part, better in told.items():
        if name.startswith(part) or (part.startswith("*") and part[1:] in name):
            if better:
                case.book.add(better, name, what)
            return
    case.book.add(usual, name, what, effect)


def _check_one(case: Case, name: str, row: Row) -> None:
    tensor, book = case.tensors[name], case.book
    if tuple(tensor.shape) != row.shape:
        own = "draft-vocab-size" if row.name == "lm_head.weight" and case.layout.family == "eagle3" else "tensor-shape"
        book.add(own, name, f"it is {list(tensor.shape)}, and config.json makes it {list(row.shape)}")
    right = {"float": STORABLE, "int64": (torch.int64, torch.int32), "bool": (torch.bool, torch.uint8)}[row.dtype]
    if tensor.dtype not in right:
        book.add("tensor-dtype", name, f"it is {str(tensor.dtype).removeprefix('torch.')}")
    elif tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        book.add("tensor-not-finite", name, f"{int((~torch.isfinite(tensor)).sum())} numbers are NaN or infinite")
    elif row.dtype == "float" and tensor.dim() == 2 and not bool(tensor.any()):
        book.add("tensor-zero", name, "all its numbers are 0")


def _check_copies(case: Case, rows: list[Row]) -> None:
    """Matrices of one shape that hold the same numbers; output layers may, since they start as copies of one head."""
    seen: dict[tuple[tuple[int, ...], float], list[str]] = {}
    for row in rows:
        tensor = case.tensors[row.name]
        alike = row.shared or "lm_head" in row.name
        if alike or tensor.dim() != 2 or not tensor.is_floating_point() or not bool(tensor.any()):
            continue
        key = (tuple(tensor.shape), float(tensor.double().sum()))
        for other in seen.get(key, []):
            if torch.equal(tensor, case.tensors[other]):
                case.book.add("tensors-identical", row.name, f"the same numbers as {other}")
        seen.setdefault(key, []).append(row.name)
