"""The draft tree as a value: tokens, parents, and everything that follows from the parents.

One `DraftTree` holds B trees of one step, padded to the same number of columns M = N + 1. Column 0 is the *root*, the
last committed token; columns 1..N are drafted nodes. A node always stands right of its parent, so any path read from
the root down is increasing in column number (moving kept cache entries to the left is therefore safe, see
targets/kv_cache.py).

It does not know which tokens are good, who drafted them, or what a model says of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from backend.trees.shapes import TreeShape

PADDING = -1  #: the parent of the root and of every padded column


@dataclass(frozen=True)
class DraftTree:
    """B draft trees, padded to M = N + 1 columns.

    Args:
        tokens: int64 [B, M]; column 0 is the root.
        parents: int64 [B, M] (or [1, M], shared by all rows); parents[b, i] < i, and -1 for the root and for padding.
        num_nodes: int64 [B], drafted nodes that are real (the root is not counted).
        max_depth: the depth no node exceeds (an int known without asking the device).

    A row that drafted less than N nodes is padded on the right with parent -1; a padded column sees no other column,
    is seen by none, and is never accepted.
    """

    tokens: Tensor
    parents: Tensor
    num_nodes: Tensor
    max_depth: int

    @classmethod
    def from_shape(cls, shape: TreeShape, tokens: Tensor) -> DraftTree:
        """A tree of static `shape` for tokens [B, M]; every row has all the shape's nodes."""
        count = torch.full((tokens.shape[0],), shape.num_nodes, device=tokens.device)
        return cls(tokens, shape.parents_on(tokens.device)[None], count, shape.max_depth)

    @classmethod
    def root_only(cls, root: Tensor) -> DraftTree:
        """No drafted node: root tokens [B] alone. Verifying it is one step of plain decoding."""
        parents = torch.full((1, 1), PADDING, device=root.device)
        return cls(root[:, None], parents, torch.zeros_like(root), 0)

    @property
    def batch(self) -> int:
        return self.tokens.shape[0]

    @property
    def width(self) -> int:
        """M: columns of a row, the root included; the rows that one verification pass computes a sequence."""
        return self.tokens.shape[1]

    @cached_property
    def real(self) -> Tensor:
        """bool [B, M]: the root and the drafted nodes, not the padding."""
        columns = torch.arange(self.width, device=self.tokens.device)
        return columns[None] <= self.num_nodes[:, None]

    @cached_property
    def ancestors(self) -> Tensor:
        """bool [B or 1, M, M]: [b, i, j] is true when j is i itself or an ancestor of i.

        Pointer doubling: after k rounds every node knows its ancestors up to distance 2^k, so a tree of depth D takes
        about log2(D) rounds of batched matrix products and no loop over nodes.
        """
        rows, width = self.parents.shape
        eye = torch.eye(width, device=self.tokens.device)
        hop = torch.zeros(rows, width, width + 1, device=self.tokens.device)
        hop.scatter_(2, torch.where(self.parents < 0, width, self.parents)[..., None], 1.0)
        reach, hop, distance = eye + hop[..., :width], hop[..., :width], 1
        while distance < self.max_depth:
            hop = hop @ hop
            reach, distance = reach + hop @ reach, 2 * distance
        return reach > 0

    @cached_property
    def depths(self) -> Tensor:
        """int64 [B or 1, M]: distance from the root; padding is 0."""
        return self.ancestors.sum(-1) - 1

    @cached_property
    def is_child_of(self) -> Tensor:
        """bool [B or 1, M, M]: [b, i, j] is true when j is the parent of i."""
        columns = torch.arange(self.width, device=self.tokens.device)
        return self.parents[..., None] == columns

    @cached_property
    def sibling_rank(self) -> Tensor:
        """int64 [B or 1, M]: how many siblings stand left of a node (0 for the first child)."""
        same = (self.parents[..., :, None] == self.parents[..., None, :]) & (self.parents[..., :, None] >= 0)
        return torch.tril(same, diagonal=-1).sum(-1)

    def padded(self, width: int) -> DraftTree:
        """The same trees with padding on the right up to `width` columns (itself when it is that wide already)."""
        missing = width - self.width
        if missing <= 0:
            return self
        tokens = torch.nn.functional.pad(self.tokens, (0, missing))
        return DraftTree(
            tokens, torch.nn.functional.pad(self.parents, (0, missing), value=PADDING), self.num_nodes, self.max_depth
        )

    def parent_columns(self) -> Tensor:
        """int64 [B, M]: parents with the root standing in for -1, safe to gather with."""
        return self.parents.clamp(min=0).expand(self.batch, -1)

    def path_to(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """The drafted nodes from the root down to `node` [B], the root excluded.

        Returns (path int64 [B, max_depth] padded with -1, length int64 [B]).
        """
        mask = self.ancestors.expand(self.batch, -1, -1)[torch.arange(self.batch, device=node.device), node]  # [B, M]
        mask = mask & (torch.arange(self.width, device=node.device) > 0)
        columns = torch.where(mask, torch.arange(self.width, device=node.device), self.width)
        path = columns.sort(dim=1).values[:, : self.max_depth]
        return torch.where(path == self.width, PADDING, path), mask.sum(-1)
