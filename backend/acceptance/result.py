"""What verification decides: the values that every acceptance rule takes and gives.

`Acceptance` is what a rule returns, `DraftDistribution` what a rule needs to know of sampled drafts. Neither knows a
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from backend.trees import DraftTree


class Verdict(IntEnum):
    """What happened to one column of a draft tree."""

    NOT_REACHED = 0  #: an ancestor was rejected or a sibling was taken first; padding too
    ACCEPTED = 1  #: committed (the root always is)
    REJECTED = 2  #: looked at and turned down


@dataclass(frozen=True)
class DraftDistribution:
    """What exact rejection has to know of drafts that were *sampled without replacement*.

    Args:
        probs: float [B, K, Vd], distributions the children were drawn from (after the draft's own temperature).
        of_column: int64 [M], which of the K distributions the children of a column came from.
        vocabulary: int64 [Vd], target token of each draft token, or None when the two vocabularies are the same.
        max_children: the most children that a node of depth 0, 1, ... has (ints known without asking the device); None:
            unknown, and a rule tries as many siblings as the tree is wide, which is right but slow.

    The children of a node stand in the tree in the order in which they were drawn, none left out. Children that were
    *chosen* (top-k, n-gram, greedy chains) have no distribution: their q is one-hot, and None is passed. Exactness
    demands that whether a sampled node stays in the tree depends only on what was known before it was drawn.
    """

    probs: Tensor
    of_column: Tensor
    vocabulary: Tensor | None = None
    max_children: tuple[int, ...] | None = None

    def rows(self, columns: Tensor, target_vocab: int) -> Tensor:
        """q over the target's vocabulary for column [B] of every row: float [B, V]."""
        batch = torch.arange(columns.shape[0], device=columns.device)
        q = self.probs[batch, self.of_column[columns]]
        if self.vocabulary is None:
            return q
        full = q.new_zeros(q.shape[0], target_vocab)
        full[:, self.vocabulary] = q
        return full


@dataclass(frozen=True)
class Acceptance:
    """The outcome of one verification for B rows. Node numbers are columns of the tree.

    Args:
        last_node: int64 [B], deepest accepted column (0, the root, when nothing was accepted).
        path: int64 [B, D], accepted columns from depth 1 down, padded with -1.
        num_accepted: int64 [B], drafted tokens committed, 0..D.
        next_token: int64 [B], the target's own token after the last accepted node (bonus or correction); the next root.
        verdict: uint8 [B, M], values of `Verdict`.
        score: float [B, M], the number the rule looked at for each node (`Rule.compared` says what it is); NaN where
            none was.
        threshold: float [B, M], what the score was held against; NaN where nothing was.
    """

    last_node: Tensor
    path: Tensor
    num_accepted: Tensor
    next_token: Tensor
    verdict: Tensor
    score: Tensor
    threshold: Tensor


def acceptance_from(
    tree: DraftTree, last_node: Tensor, next_token: Tensor, looked_at: Tensor, score: Tensor, threshold: Tensor
) -> Acceptance:
    """Fill in path and verdicts from the last accepted column [B] and the columns a rule looked at (bool [B, M])."""
    path, length = tree.path_to(last_node)
    on_path = tree.ancestors.expand(tree.batch, -1, -1)[torch.arange(tree.batch, device=last_node.device), last_node]
    rejected = looked_at & ~on_path & tree.real
    verdict = on_path.to(torch.uint8) * Verdict.ACCEPTED + rejected.to(torch.uint8) * Verdict.REJECTED
    return Acceptance(last_node, path, length, next_token, verdict, score, threshold)
