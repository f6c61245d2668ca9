"""What can be seen to be wrong with a drafter's folder without running it: tensors, versions, the token map.

Says what is there, never what it costs. Knows the tensors' names of no family but those that stack their heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from backend.drafters.checkpoint import WEIGHTS, DrafterMeta, file_sha256

STACKED: Final = ("block_weight",)  #: one slice a head, all zeros before training (see medusa/model.py)
OUTPUTS: Final = ("lm_head.weight", "output")  #: rows that start as copies of the target's
SAMPLE: Final = 512  #: output rows that are looked at before all of them are
ALIKE: Final = 0.3  #: cosine from which a row is said to be a token's
PARTS: Final[Mapping[str, str]] = {
    "weights_id": "weights-differ",
    "adapter_id": "adapter-differs",
    "quantisation": "quantisation-differs",
    "tokenizer_id": "tokenizer-differs",
    "template_id": "template-differs",
}


@dataclass(frozen=True)
class Fault:
    """`kind` as in analysis/doctor.py; `what`: one sentence."""

    kind: str
    what: str


def tensors_of(folder: Path) -> dict[str, Tensor] | None:
    """As they stand in the file, whatever is wrong with them; None for a file that can't be read."""
    try:
        return load_file(folder / WEIGHTS)
    except (OSError, SafetensorError):
        return None


def folder_faults(folder: Path, meta: DrafterMeta, tensors: Mapping[str, Tensor] | None) -> list[Fault]:
    """Faults of the files."""
    if tensors is None:
        return [Fault("file-damaged", f"{WEIGHTS} is missing or can't be read.")]
    found = []
    if meta.weights_sha256 and file_sha256(folder / WEIGHTS) != meta.weights_sha256:
        found.append(Fault("file-damaged", f"{WEIGHTS} is not the file that was written with this drafter."))
    for name, tensor in tensors.items():
        found += _tensor_faults(name, tensor)
    return found


def _tensor_faults(name: str, tensor: Tensor) -> list[Fault]:
    if not tensor.is_floating_point():
        return []
    if not bool(torch.isfinite(tensor).all()):
        return [Fault("tensor-not-finite", f"{name} holds {int((~torch.isfinite(tensor)).sum())} NaN or infinities.")]
    if name in STACKED:
        return _stacked_faults(name, tensor)
    if tensor.dim() >= 2 and not bool(tensor.any()):
        return [Fault("tensor-zero", f"All numbers of {name} are 0.")]
    return []


def _stacked_faults(name: str, tensor: Tensor) -> list[Fault]:
    found = []
    for head, part in enumerate(tensor):
        if not bool(part.any()):
            found.append(
                Fault("tensor-untrained", f"Head {head + 1} was never trained: its part of {name} is as it began.")
            )
            continue
        twin = next((other for other in range(head) if torch.equal(tensor[other], part)), None)
        if twin is not None:
            found.append(
                Fault("tensors-identical", f"Heads {twin + 1} and {head + 1} hold the same numbers in {name}.")
            )
    return found


def version_faults(trained: Mapping[str, str], now: Mapping[str, str]) -> list[Fault]:
    """Parts of the target's version that are not those the drafter was trained for; none where it does not say."""
    found = []
    for part, kind in PARTS.items():
        if trained.get(part) and now.get(part) and trained[part] != now[part]:
            word = kind.rpartition("-")[0].replace("template", "chat template")
            parts = f"{trained[part][:12]} instead of {now[part][:12]}"
            found.append(
                Fault(
                    kind, f"The {word} {'are' if part == 'weights_id' else 'is'} not what it was trained for: {parts}."
                )
            )
    return found


def likely_map(tensors: Mapping[str, Tensor], head: Tensor) -> tuple[float, Tensor] | None:
    """(share of output rows that resemble another token's row of the target's head than the one they are mapped to,
    the map in which every row is the token that it resembles most).

    `head`: float [V, H]. None where the drafter has no output rows of its own, or none that resembles anything.
    """
    rows, mapped = next((tensors[name] for name in OUTPUTS if name in tensors), None), tensors.get("token_map")
    if rows is None or mapped is None:
        return None
    rows = (rows[0] if rows.dim() == 3 else rows).float()
    if len(rows) != len(mapped) or rows.shape[-1] != head.shape[-1]:
        return None
    unit = torch.nn.functional.normalize(head.float().cpu(), dim=-1)
    picked = torch.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).long()
    best, token = _nearest(rows[picked], unit)
    like = best > ALIKE
    if int(like.sum()) < min(16, len(picked)):
        return None
    wrong = float((token != mapped[picked])[like].float().mean())
    if wrong < 0.1:
        return wrong, mapped
    return wrong, _all_different(torch.cat([_nearest(part, unit)[1] for part in rows.split(SAMPLE)]), len(head))


def _nearest(rows: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.nn.functional.normalize(rows, dim=-1) @ unit.T
    best, token = scores.max(-1)
    return best, token


def _all_different(tokens: Tensor, vocab: int) -> Tensor:
    """The same map; a token that comes again is replaced by one that no row has."""
    seen: set[int] = set()
    free = iter(sorted(set(range(vocab)) - set(tokens.tolist())))
    made = []
    for token in tokens.tolist():
        made.append(next(free) if token in seen else token)
        seen.add(made[-1])
    return torch.tensor(made)


def layers_to_try(reads: tuple[int, ...], num_layers: int, final: int) -> dict[str, tuple[int, ...]]:
    """Names -> other layers: all one lower or higher, in another order, the usual ones."""
    places = [*range(num_layers + 1), final]
    found: dict[str, tuple[int, ...]] = {}
    for shift in (-1, 1):
        moved = [places.index(layer) + shift for layer in reads]
        if min(moved) >= 0 and max(moved) < len(places):
            found[f"layers {shift:+d}"] = tuple(places[place] for place in moved)
    for turn in range(1, len(reads)):
        found[f"order turned by {turn}"] = (*reads[turn:], *reads[:turn])
    if len(reads) > 2:
        found["order reversed"] = tuple(reversed(reads))
    return {name: layers for name, layers in found.items() if layers != reads}


def trained_depth(lineage: Mapping[str, Any]) -> int | None:
    """How many depths a drafter of the recycling kind was trained at; None where it does not say."""
    steps = (lineage.get("drafter") or {}).get("test_time_steps")
    return int(steps) if isinstance(steps, int) else None
