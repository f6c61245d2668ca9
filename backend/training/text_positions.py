"""The positions of answers in a capture of whole texts, so that families which learn from single positions need none of
their own: the same positions in the same order, with the same labels, as training/features.py would capture.

The states are those that a capture of positions holds, up to the rounding of passes that were padded in another way.
"""

from __future__ import annotations

from torch import Tensor

from backend.training.captures import identity
from backend.training.features import PositionFeatures
from backend.training.text_features import TextFeatureStore


class PositionsOfTexts(PositionFeatures):
    """A view of `store`. `ahead`: batches hold the states at the following positions too."""

    def __init__(self, store: TextFeatureStore, ahead: bool = False) -> None:
        self._store = store
        self._rows, following, left = store.answer_positions()
        super().__init__(following, left, int(store.header["hidden_size"]), ahead)
        self._fingerprint = identity(store.header, store.made_by, None)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def states(self, positions: Tensor) -> Tensor:
        return self._store.final(self._rows[positions])
