"""The two halves of an EAGLE-3 head's vocabulary map: `d2t` int64 [Vd] of *offsets* (target token = i + d2t[i]) and
`t2d` bool [V]. Knows tensors, no files.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from backend.errors import HeadwayError


def tokens_of(offsets: Tensor) -> Tensor:
    """int64 [Vd]: target token of each draft token."""
    return torch.arange(len(offsets)) + offsets.long()


def is_map(tokens: Tensor, vocabulary: int) -> bool:
    """Whether these are different tokens of the target."""
    inside = bool(((tokens >= 0) & (tokens < vocabulary)).all())
    return inside and len(tokens.unique()) == len(tokens)


def holds_ids(d2t: Tensor, t2d: Tensor | None, vocabulary: int) -> bool:
    """Whether d2t names target tokens where offsets should stand, as several writers have it.

    Told by t2d where there is one; else by ids being a map and offsets being none.
    """
    ids, tokens = d2t.long(), tokens_of(d2t)
    if not is_map(ids, vocabulary):
        return False
    if t2d is not None and t2d.shape == (vocabulary,):
        said = t2d.bool()
        return bool(said[ids].all()) and int(said.sum()) == len(ids) and not _agrees(tokens, said)
    return not is_map(tokens, vocabulary)


def agrees(d2t: Tensor, t2d: Tensor, vocabulary: int) -> bool:
    """Whether both halves say the same."""
    return t2d.shape == (vocabulary,) and _agrees(tokens_of(d2t), t2d.bool())


def _agrees(tokens: Tensor, said: Tensor) -> bool:
    if not is_map(tokens, len(said)):
        return False
    return torch.equal(torch.zeros_like(said).index_fill(0, tokens, True), said)


def token_map_of(tensors: Mapping[str, Tensor], drafted: int, vocabulary: int, notes: list[str]) -> Tensor:
    """int64 [Vd] from a published head. Raises HeadwayError where there is none to be had."""
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is None:
        if drafted == vocabulary:
            return torch.arange(vocabulary)
        if t2d is not None and t2d.shape == (vocabulary,) and int(t2d.bool().sum()) == drafted:
            notes.append("It has no d2t; the draft tokens were taken in the order of t2d.")
            return t2d.bool().nonzero()[:, 0]
        raise HeadwayError(f"It scores {drafted} tokens but has no d2t to say which; fetch the whole folder.")
    if d2t.shape != (drafted,):
        raise HeadwayError(f"Its d2t maps {d2t.numel()} tokens, its output head scores {drafted}; fetch it again.")
    tokens = tokens_of(d2t)
    if holds_ids(d2t, t2d, vocabulary):
        notes.append("Its d2t holds token ids instead of offsets; they were read as ids.")
        tokens = d2t.long()
    if not is_map(tokens, vocabulary):
        raise HeadwayError("Its d2t names tokens twice or such as the target does not have; fetch it again.")
    return tokens
