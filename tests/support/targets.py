"""Tiny random targets, built once a session, and the plain truth to hold them against.

A `reference` is the same model untouched: transformers' own eager attention and masks, no packed weights, no cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from transformers import PreTrainedModel

from backend.targets.identity import VersionIdentity
from backend.targets.target import Target
from backend.targets.tiny import KINDS, tiny_model, tiny_tokenizer

UNSUPPORTED = ("bloom", "mpt", "mamba")
SUPPORTED = tuple(kind for kind in KINDS if kind not in UNSUPPORTED)


def wrap(model: PreTrainedModel, name: str = "tiny", pack: bool = True) -> Target:
    return Target(model, tiny_tokenizer(), VersionIdentity(name, "none", "none", "tiny", "chatml", name), name, pack)


@cache
def target_of(kind: str, seed: int = 0) -> Target:
    return wrap(tiny_model(kind, seed), f"tiny-{kind}-{seed}")


@cache
def reference_of(kind: str, seed: int = 0) -> PreTrainedModel:
    model = tiny_model(kind, seed)
    model.set_attn_implementation("eager")
    return model


@torch.no_grad()
def plain_logits(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """[T, V]: one forward over the whole text, nothing remembered."""
    logits: Tensor = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return logits


def random_text(seed: int, length: int, vocabulary: int = 250) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (length,), generator=generator).tolist()
