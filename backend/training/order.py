"""In which batches an epoch goes through what there is to learn from. Pure functions of seed and sizes, so that a
resumed run sees what it would have seen; knows no features.

Two kinds: single positions in equal batches, and whole texts in batches of about as many tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

SIMILAR = 0.8  #: texts of a class are at least this much as long as its longest


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
    a class are mixed and cut into batches of as many as fit `batch_tokens` if all were as long as the longest. What is
    left over of a class fills up with texts of the next, shorter one; then the batches of all classes are mixed. How
    many batches there are depends on the lengths alone, so every epoch has as many. A text longer than `batch_tokens`
    is a batch of its own.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = torch.tensor(lengths, dtype=torch.int64)

    def per_epoch(self, batch_tokens: int) -> int:
        return len(self._cut(batch_tokens, None))

    def epoch(self, batch_tokens: int, seed: int) -> Sequence[Tensor]:
        """The batches of the epoch with this seed, each int64 [rows]: numbers of texts."""
        generator = torch.Generator().manual_seed(seed)
        batches = self._cut(batch_tokens, generator)
        return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]

    def in_order(self, batch_tokens: int) -> Sequence[Tensor]:
        """Every text once, for evaluation."""
        return self._cut(batch_tokens, None)

    def _cut(self, batch_tokens: int, generator: torch.Generator | None) -> list[Tensor]:
        """The batches, the longest texts first; with a generator the texts of a class are mixed."""
        batches: list[Tensor] = []
        left, rows = self._longest_first[:0], 1  # an unfinished batch, and how many texts it is to have
        for texts, longest in self._classes:
            mixed = texts if generator is None else texts[torch.randperm(len(texts), generator=generator)]
            if len(left):
                missing = rows - len(left)
                left, mixed = torch.cat([left, mixed[:missing]]), mixed[missing:]
                if len(left) < rows:
                    continue
                batches.append(left)
            rows = max(1, batch_tokens // longest)
            whole = len(mixed) // rows * rows
            batches += mixed[:whole].split(rows) if whole else ()
            left = mixed[whole:]
        return [*batches, left] if len(left) else batches

    @cached_property
    def _classes(self) -> list[tuple[Tensor, int]]:
        """(numbers of the texts of a class, the longest length among them), the longest texts first."""
        order, found = self._longest_first, []
        sizes = self.lengths[order]
        start = 0
        while start < len(order):
            longest = int(sizes[start])
            end = start + int((sizes[start:] >= SIMILAR * longest).sum())
            found.append((order[start:end], longest))
            start = end
        return found

    @cached_property
    def _longest_first(self) -> Tensor:
        return self.lengths.argsort(descending=True, stable=True)
