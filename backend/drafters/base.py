"""What every drafter is: something that proposes a tree of tokens after a root.

The loop (decoding/loop.py) hands a drafter what it may look at and takes a `Draft` back; it neither knows nor cares how
the tokens were found. A drafter keeps state per row only between `start` and the last `draft`; rows come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from backend.acceptance.result import DraftDistribution
from backend.errors import HeadwayError
from backend.trees import DraftTree, DynamicShape, TreeShape


@dataclass(frozen=True)
class DraftContext:
    """What a drafter may look at in one step; B rows.

    Args:
        tokens: int64 [B, C], committed tokens of every row, prompt included; columns at and past `lengths` are garbage.
        lengths: int64 [B], committed tokens of every row, the root included: the root is tokens[b, lengths[b] - 1].
        hidden: float [B, H], the target's last hidden state after its final norm at the position *before* the root,
            the state from which the root itself was predicted.
        temperature: what the target samples with (0 = greedy).
        generator: source of all randomness of this decode.
        max_depth: how deep a tree makes sense at most (rows about to end need no deeper one).
        host_lengths: `lengths` as the host already knows them, for drafters that keep a cache; None makes them ask the
            device.
        states: float [B, S, F], what the drafter `reads` at the positions committed since its last draft, oldest first
            and garbage past `num_states` [B]; the last one stands before the root. None for drafters that read nothing.
    """

    tokens: Tensor
    lengths: Tensor
    hidden: Tensor
    temperature: float
    generator: torch.Generator
    max_depth: int
    host_lengths: Sequence[int] | None = None
    states: Tensor | None = None
    num_states: Tensor | None = None

    @property
    def roots(self) -> Tensor:
        """int64 [B]: the last committed token of every row."""
        return self.tokens.gather(1, self.lengths[:, None] - 1)[:, 0]


@dataclass(frozen=True)
class Draft:
    """A proposed tree; `draft_prob` float [B, M] is what the drafter itself thought of each node (NaN: no opinion).

    `scores`: float [D, B, Vd] that the children at depths 1..D were chosen by, whatever stands before them, where the
    family has such; `token_map` int64 [Vd]: their target tokens, None when they are the same.
    """

    tree: DraftTree
    draft_prob: Tensor
    distribution: DraftDistribution | None = None
    scores: Tensor | None = None
    token_map: Tensor | None = None


class Drafter(Protocol):
    """One family's drafting; see the folders beside this file."""

    family: str
    name: str

    @property
    def reads(self) -> tuple[int, ...]:
        """The target's layers whose states it wants at every position (see Target.tapped; FINAL for the last hidden
        state); empty for drafters that need `hidden` alone or nothing.
        """
        ...

    @property
    def sampled(self) -> bool:
        """Whether siblings are drawn at random, without replacement, when the temperature is above 0."""
        ...

    @property
    def shape(self) -> TreeShape:
        """The static tree it fills (for dynamic ones: the largest)."""
        ...

    def with_shape(self, shape: TreeShape) -> Drafter:
        """The same drafter filling another tree.

        Raises HeadwayError when it can't (deeper than trained, wider than it has candidates).
        """
        ...

    def with_sampled(self, sampled: bool) -> Drafter:
        """The same drafter with siblings drawn or chosen; one that has nothing to draw from returns itself."""
        ...

    def start(self, rows: int, capacity: int) -> None:
        """Forget every row and make room for `rows` sequences of at most `capacity` tokens."""
        ...

    def replace_rows(self, rows: Sequence[int]) -> None:
        """These rows now hold new sequences: forget what was known of the old ones."""
        ...

    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """For drafters that read states: the prompt and first token of a new row, int64 [P + 1], and the states at the
        P positions of the prompt [P, F]. Those of the last position come again with the first draft.
        """
        ...

    def move_row(self, source: int, target: int) -> None:
        """Row `target` now holds what row `source` held."""
        ...

    def draft(self, context: DraftContext) -> Draft:
        """Propose a tree for every row."""
        ...


def tree_to_fill(
    name: str,
    shape: TreeShape,
    dynamic: DynamicShape | None,
    num_tokens: int,
    deepest: int | None = None,
    because: str = "",
) -> TreeShape:
    """The tree that `name` fills, or for a `dynamic` one its largest size.

    num_tokens: that can be drafted; deepest: levels that can be, None for any; because: why, as in "has 4 heads".
    Raises HeadwayError for a tree that is too deep or too wide.
    """
    found = dynamic.bounds() if dynamic is not None else shape
    if deepest is not None and found.max_depth > deepest:
        raise HeadwayError(
            f"The tree is {found.max_depth} deep, but {name} {because}; choose a tree of depth {deepest} or less."
        )
    if dynamic is None and max(found.widths, default=0) > num_tokens:
        raise HeadwayError(f"The tree is wider than the {num_tokens} tokens {name} can draft; make it narrower.")
    return found


class Around:
    """Those parts of `Drafter` that one which wraps another hands on: who has rows, and what they have read."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self.family, self.name, self.sampled = inner.family, inner.name, inner.sampled
        self.reads, self.shape = inner.reads, inner.shape

    def start(self, rows: int, capacity: int) -> None:
        self._inner.start(rows, capacity)

    def replace_rows(self, rows: Sequence[int]) -> None:
        self._inner.replace_rows(rows)

    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        self._inner.read_prompt(row, tokens, states)

    def move_row(self, source: int, target: int) -> None:
        self._inner.move_row(source, target)


class Stateless:
    """Those parts of `Drafter` that have nothing to do in drafters which keep nothing of a row, or read no states."""

    reads: tuple[int, ...] = ()

    def start(self, rows: int, capacity: int) -> None:
        return None

    def replace_rows(self, rows: Sequence[int]) -> None:
        return None

    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        return None

    def move_row(self, source: int, target: int) -> None:
        return None
