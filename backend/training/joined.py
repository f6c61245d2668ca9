"""Features of several captures as one: what a drafter learns from that is to serve several versions of a target.

Each capture was made by its own version from its own answers; here they only stand one behind the other, so a batch
mixes them as it mixes the texts of one. Knows neither versions nor drafters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from backend.drafters.learning import FeatureBatch, SequenceBatch
from backend.training.order import PositionOrder, TextOrder


class Positions(Protocol):
    """See features.PositionFeatures."""

    @property
    def fingerprint(self) -> str: ...

    def __len__(self) -> int: ...

    def batch(self, positions: Tensor, horizon: int, /) -> FeatureBatch: ...


class Texts(Protocol):
    """See text_features.TextFeatureStore. `lengths`: int64 [texts], tokens of each."""

    fingerprint: str
    lengths: Tensor

    def __len__(self) -> int: ...

    def batch(self, texts: Tensor, horizon: int, /) -> SequenceBatch: ...


class JoinedPositions(PositionOrder):
    """The positions of all parts, counted through. Raises ValueError without any part."""

    def __init__(self, parts: Sequence[Positions]) -> None:
        self._parts, self._starts = parts, _starts([len(part) for part in parts])
        self.fingerprint = _fingerprint([part.fingerprint for part in parts])

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        """Positions int64 [T] -> hidden float32 [T, H], following int64 [T, horizon]; see PositionFeatures.batch."""
        found, back = [], []
        for number, here in _by_part(positions, self._starts):
            found.append(self._parts[number].batch(positions[here] - self._starts[number], horizon))
            back.append(here)
        order = torch.cat(back).argsort()
        ahead = [one.ahead for one in found if one.ahead is not None]
        return FeatureBatch(
            torch.cat([one.hidden for one in found])[order],
            torch.cat([one.following for one in found])[order],
            torch.cat(ahead)[order] if ahead else None,
        )


class JoinedTexts(TextOrder):
    """The texts of all parts, counted through; all parts hold the same layers. Raises ValueError without any part."""

    def __init__(self, parts: Sequence[Texts]) -> None:
        self._parts, self._starts = parts, _starts([len(part.lengths) for part in parts])
        self.fingerprint = _fingerprint([part.fingerprint for part in parts])
        super().__init__(torch.cat([part.lengths for part in parts]).tolist())

    def __len__(self) -> int:
        """Tokens of answers, those that are learned from."""
        return sum(map(len, self._parts))

    def batch(self, texts: Tensor, horizon: int) -> SequenceBatch:
        """The texts with these numbers, int64 [B], padded on the right to the longest; see TextFeatureStore.batch."""
        found, back = [], []
        for number, here in _by_part(texts, self._starts):
            found.append(self._parts[number].batch(texts[here] - self._starts[number], horizon))
            back.append(here)
        order = torch.cat(back).argsort()
        width = max(one.tokens.shape[1] for one in found)
        return SequenceBatch(
            torch.cat([_padded(one.tokens, width) for one in found])[order],
            torch.cat([_padded(one.states, width) for one in found])[order],
            torch.cat([_padded(one.final, width) for one in found])[order],
            torch.cat([_padded(one.learn, width) for one in found])[order],
        )


def _starts(sizes: Sequence[int]) -> Tensor:
    """int64 [parts]: the number of each part's first."""
    if not sizes:
        raise ValueError("features of at least one part are needed, got none")
    return torch.tensor([0, *sizes[:-1]]).cumsum(0)


def _by_part(numbers: Tensor, starts: Tensor) -> list[tuple[int, Tensor]]:
    """(part, places in `numbers` that belong to it), for the parts that have any; with no number, the first part."""
    which = torch.bucketize(numbers, starts, right=True) - 1
    return [(part, (which == part).nonzero()[:, 0]) for part in which.unique().tolist() or [0]]


def _padded(values: Tensor, width: int) -> Tensor:
    """[B, T, ...] -> [B, width, ...], zeros behind."""
    more = values.new_zeros(values.shape[0], width - values.shape[1], *values.shape[2:])
    return torch.cat([values, more], dim=1)


def _fingerprint(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
