"""What the rules share: the target's processed logits of the columns they visit, and the walk for *chosen* children.

A walk visits at most D + 1 of the M columns, one a depth, so only those rows are processed and softmaxed: on a CPU with
a vocabulary of 50,000 that is most of a rule's cost. Rows of the batch that have stopped keep computing without effect;
asking the device whether all have stopped would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.acceptance.processors import SamplingSettings, process_logits
from backend.acceptance.result import Acceptance, acceptance_from
from backend.trees import DraftTree


@dataclass(frozen=True)
class TargetRows:
    """The target's logits [B, M, V] for a tree, processed only where a rule looks. `seen` bool [B, V]: the context's
    tokens."""

    tree: DraftTree
    logits: Tensor
    settings: SamplingSettings
    seen: Tensor | None

    def logits_at(self, column: Tensor) -> Tensor:
        """Processed logits float32 [B, V] that predict the token after column [B] of every row."""
        row = torch.arange(column.shape[0], device=column.device)
        seen = self._seen_at(row, column) if self.settings.needs_seen else None
        return process_logits(self.logits[row, column], self.settings, seen)

    def probs_at(self, column: Tensor) -> Tensor:
        """p float32 [B, V]: the processed distribution of the token after column [B] of every row."""
        return self.logits_at(column).softmax(-1)

    def _seen_at(self, row: Tensor, column: Tensor) -> Tensor | None:
        if self.seen is None:
            return None
        tree = self.tree
        on_path = tree.ancestors.expand(tree.batch, -1, -1)[row, column]  # [B, M]
        path_tokens = torch.where(on_path, tree.tokens, tree.tokens[row, column][:, None])
        return self.seen.scatter(1, path_tokens, True)


def children_of(tree: DraftTree, column: Tensor) -> Tensor:
    """bool [B, M]: the drafted children of column [B] of every row."""
    return tree.parents == column[:, None]


def first_column(mask: Tensor) -> Tensor:
    """int64 [B]: the leftmost true column of mask bool [B, M]; 0 where none is."""
    return mask.to(torch.uint8).argmax(1)


def blank_numbers(tree: DraftTree, like: Tensor) -> Tensor:
    """float32 [B, M] of NaN: no number was looked at yet."""
    return torch.full(tree.tokens.shape, torch.nan, device=like.device)


Emit = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""(processed logits [B, V], depth) -> (the token the target emits there [B], numbers to show of all tokens [B, V])."""


def follow(rows: TargetRows, emit: Emit) -> Acceptance:
    """Let the target decode as if alone; as long as the token it emits was drafted, its logits are already there.

    At each node the target emits one token, in complete ignorance of the draft. If a child carries that token, the
    child is accepted and the walk goes on from it; if none does, that token is the correction; at a leaf it is the
    bonus. What is committed is exactly what plain decoding would have emitted, so any `emit` makes a lossless rule.
    """
    tree = rows.tree
    node = torch.zeros_like(tree.tokens[:, 0])  # [B], where the walk stands
    next_token = node
    walking = torch.ones_like(node, dtype=torch.bool)
    looked_at = torch.zeros_like(tree.tokens, dtype=torch.bool)
    score, threshold = blank_numbers(tree, node), blank_numbers(tree, node)
    for depth in range(tree.max_depth + 1):
        token, shown = emit(rows.logits_at(node), depth)
        next_token = torch.where(walking, token, next_token)
        children = children_of(tree, node) & walking[:, None]
        looked_at = looked_at | children
        score = torch.where(children, shown.gather(1, tree.tokens), score)
        threshold = torch.where(children, shown.gather(1, token[:, None]), threshold)
        hit = children & (tree.tokens == token[:, None])
        walking = hit.any(1)
        node = torch.where(walking, first_column(hit), node)
    return acceptance_from(tree, node, next_token, looked_at, score, threshold)
