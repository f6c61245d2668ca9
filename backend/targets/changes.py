"""What changed between two versions: weights by layer, tokens, special tokens, chat template, settings of the model.

Reads both checkpoints tensor by tensor, so no more than one pair of tensors is in memory. Weights are those of the
model under an adapter; of adapter and quantisation the settings are told. Knows no store.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from backend.errors import HeadwayError
from backend.targets.checkpoint import StoredTensor, read_json, stored_tensors
from backend.targets.describing import Described
from backend.targets.identity import compare
from backend.targets.sources import ADAPTER_CONFIG

MOST_NAMED = 50  #: tokens, settings or tensors that are listed by name
MOST_LINES = 400  #: of a template's difference
_ADAPTER = ("r", "lora_alpha", "target_modules", "modules_to_save", "use_rslora", "use_dora")
_LAYER = re.compile(r"(.*?\b(?:layers|h|blocks))\.(\d+)\.")


@dataclass(frozen=True)
class LayerChange:
    """One layer's weights. `change`: norm of the difference over the norm before, 0 for equal ones (Frobenius, over all
    tensors of the layer). `reshaped`: tensors with another shape, compared as far as they overlap.
    """

    name: str
    tensors: int
    changed: int
    change: float
    reshaped: int


@dataclass(frozen=True)
class Changes:
    """`parts`: what of the identity differs, in words. Lists are cut to MOST_NAMED, counts are not."""

    parts: tuple[str, ...]
    layers: tuple[LayerChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    tokens_added: tuple[str, ...]
    tokens_removed: tuple[str, ...]
    num_tokens_added: int
    num_tokens_removed: int
    num_tokens_moved: int
    special: Mapping[str, tuple[Any, Any]]
    template: tuple[str, ...]
    settings: Mapping[str, tuple[Any, Any]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def changes(first: Described, second: Described) -> Changes:
    """What is different in the second. Raises HeadwayError for targets without files, or files that can't be read."""
    if first.folder is None or second.folder is None:
        raise HeadwayError("Tiny random targets have no files to compare; choose versions that lie in a folder.")
    layers, only_first, only_second = _weights(first.folder, second.folder)
    before, after = first.tokenizer.get_vocab(), second.tokenizer.get_vocab()
    added, removed = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    return Changes(
        parts=tuple(compare(first.identity, second.identity)),
        layers=layers,
        only_first=only_first[:MOST_NAMED],
        only_second=only_second[:MOST_NAMED],
        tokens_added=tuple(added[:MOST_NAMED]),
        tokens_removed=tuple(removed[:MOST_NAMED]),
        num_tokens_added=len(added),
        num_tokens_removed=len(removed),
        num_tokens_moved=sum(before[token] != after[token] for token in before.keys() & after.keys()),
        special=_differing(_special(first.tokenizer), _special(second.tokenizer)),
        template=_template(first.tokenizer, second.tokenizer),
        settings=_differing(_settings(first), _settings(second)),
    )


def _weights(first: Path, second: Path) -> tuple[tuple[LayerChange, ...], tuple[str, ...], tuple[str, ...]]:
    ours = {tensor.name: tensor for tensor in stored_tensors(first)}
    theirs = {tensor.name: tensor for tensor in stored_tensors(second)}
    #: tensors, changed ones, squared norms of the difference and before, reshaped ones
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0, 0])
    for name in sorted(ours.keys() & theirs.keys()):
        apart, norm = _apart(ours[name], theirs[name])
        own = sums[_layer(name)]
        own[0] += 1
        own[1] += apart > 0
        own[2] += apart
        own[3] += norm
        own[4] += ours[name].shape != theirs[name].shape
    found = tuple(
        LayerChange(name, int(own[0]), int(own[1]), (own[2] / own[3]) ** 0.5 if own[3] else 0.0, int(own[4]))
        for name, own in sorted(sums.items(), key=lambda item: _place(item[0]))
    )
    return found, tuple(sorted(ours.keys() - theirs.keys())), tuple(sorted(theirs.keys() - ours.keys()))


def _apart(first: StoredTensor, second: StoredTensor) -> tuple[float, float]:
    """(squared norm of the difference, squared norm before), where the shapes overlap."""
    before, after = _read(first), _read(second)
    if before.dim() == after.dim():
        here = tuple(slice(0, min(a, b)) for a, b in zip(before.shape, after.shape, strict=True))
        before, after = before[here], after[here]
    if before.shape != after.shape:
        return float(after.double().square().sum()), float(before.double().square().sum())
    wide = before.double()
    return float((after.double() - wide).square().sum()), float(wide.square().sum())


def _read(tensor: StoredTensor) -> Tensor:
    with safe_open(tensor.file, framework="pt") as stored:
        found: Tensor = stored.get_tensor(tensor.name)
        return found


def _layer(name: str) -> str:
    """ "layer 3", or the tensor's own name without its ending."""
    found = _LAYER.match(name)
    return f"layer {found[2]}" if found else name.rpartition(".")[0] or name


def _place(name: str) -> tuple[int, int, str]:
    number = name.removeprefix("layer ")
    return (1, int(number), "") if number.isdigit() and number != name else (0, 0, name)


def _special(tokenizer: Any) -> dict[str, Any]:
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    marked = sorted(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
    return {name: getattr(tokenizer, name) for name in names} | {"all special tokens": marked[:200]}


def _template(first: Any, second: Any) -> tuple[str, ...]:
    before, after = (str(one.chat_template or "").splitlines() for one in (first, second))
    return tuple(list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))[:MOST_LINES])


def _settings(one: Described) -> dict[str, Any]:
    """Of the model, and behind them those of its adapter and its quantisation."""
    assert one.folder is not None, "asked for before"
    left_out = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures")
    found = {name: value for name, value in read_json(one.folder / "config.json").items() if name not in left_out}
    if one.adapter_folder is not None:
        settings = read_json(one.adapter_folder / ADAPTER_CONFIG)
        found |= {f"adapter: {name}": settings.get(name) for name in _ADAPTER if settings.get(name)}
    return found | ({"quantisation": one.identity.quantisation} if one.identity.quantisation != "none" else {})


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    return {name: (first.get(name), second.get(name)) for name in names[:MOST_NAMED]}
