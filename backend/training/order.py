"""In which batches an epoch goes through what there is to learn from. Pure functions of seed and sizes, so that a
resumed run sees what it would have seen; knows no features.

Two kinds: single positions in equal batches, and whole texts in batches of about as many tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

SIMILAR = 0.8  #: texts in one batch are at least this much as long as the longest that could be in it


class PositionOrder:
    """For features of single positions: each epoch is a permutation, cut into equal batches; a last, smaller one is
    left out. Needs `__len__`.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def per_epoch(self, batch_tokens: int) -> int:
        """Batches of an epoch; 0 when there are too few positions for one."""
        return len(self) // batch_tokens

    def epoch(self, batch_tokens: int, seed: int) -> Sequence[Tensor]:
        """The batches of the epoch with this seed, each int64 [batch_tokens]."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self), generator=generator)
        return [order[place * batch_tokens :][:batch_tokens] for place in range(self.per_epoch(batch_tokens))]

    def in_order(self, batch_tokens: int) -> Sequence[Tensor]:
        """Everything once, for evaluation."""
        return torch.arange(len(self)).split(batch_tokens) if len(self) else ()


class TextOrder:
    """For whole texts of these lengths, in tokens. Texts of similar length share a batch, so that little is padded.

    The lengths are divided into classes, each from a longest length down to SIMILAR of it; in every epoch the texts of
    a class are mixed and cut into batches of as many as fit `batch_tokens` if all were as long as the longest, and the
    batches of all classes are mixed. An epoch therefore always has the same number of batches. A text longer than
    `batch_tokens` is a batch of its own.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = torch.tensor(lengths, dtype=torch.int64)

    def per_epoch(self, batch_tokens: int) -> int:
        return sum(-(-len(texts) // rows) for texts, rows in self._classes(batch_tokens))

    def epoch(self, batch_tokens: int, seed: int) -> Sequence[Tensor]:
        """The batches of the epoch with this seed, each int64 [rows]: numbers of texts."""
        generator = torch.Generator().manual_seed(seed)
        batches: list[Tensor] = []
        for texts, rows in self._classes(batch_tokens):
            batches += texts[torch.randperm(len(texts), generator=generator)].split(rows)
        return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]

    def in_order(self, batch_tokens: int) -> Sequence[Tensor]:
        """Every text once, for evaluation."""
        return [batch for texts, rows in self._classes(batch_tokens) for batch in texts.split(rows)]

    def _classes(self, batch_tokens: int) -> list[tuple[Tensor, int]]:
        """(numbers of the texts of a class, how many make a batch), the longest texts first."""
        order, found = self._longest_first, []
        sizes = self.lengths[order]
        start = 0
        while start < len(order):
            longest = int(sizes[start])
            end = start + int((sizes[start:] >= SIMILAR * longest).sum())
            found.append((order[start:end], max(1, batch_tokens // longest)))
            start = end
        return found

    @cached_property
    def _longest_first(self) -> Tensor:
        return self.lengths.argsort(descending=True, stable=True)
