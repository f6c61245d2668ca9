"""Random verification problems: ragged trees over a tiny vocabulary, target logits, draft distributions, chance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend.acceptance import DraftDistribution, SamplingSettings
from backend.acceptance.slow import SlowTree
from backend.acceptance.walk import TargetRows
from backend.trees import DraftTree

VOCAB = 8


@dataclass(frozen=True)
class Case:
    """B problems padded to one width, with the uniform numbers that the rules take."""

    tree: DraftTree
    logits: Tensor  # [B, M, V]
    distribution: DraftDistribution
    trial: Tensor  # [B, D, K]
    per_depth: Tensor  # [B, D + 1]
    final: Tensor  # [B]
    seen: Tensor  # bool [B, V]

    def rows(self, settings: SamplingSettings) -> TargetRows:
        return TargetRows(self.tree, self.logits, settings, self.seen)

    def alone(self, b: int) -> Case:
        """Row b without its padding, as if it had been drafted and verified alone."""
        width = int(self.tree.num_nodes[b]) + 1
        depth = int(self.tree.depths.expand(self.tree.batch, -1)[b].max())
        q = self.distribution
        return Case(
            DraftTree(
                self.tree.tokens[b : b + 1, :width],
                self.tree.parents[b : b + 1, :width],
                self.tree.num_nodes[b : b + 1],
                depth,
            ),
            self.logits[b : b + 1, :width],
            replace(q, probs=q.probs[b : b + 1], of_column=q.of_column[:width], max_children=None),
            self.trial[b : b + 1, :depth],
            self.per_depth[b : b + 1, : depth + 1],
            self.final[b : b + 1],
            self.seen[b : b + 1],
        )

    def slow_tree(self, b: int) -> SlowTree:
        width = int(self.tree.num_nodes[b]) + 1
        return SlowTree(self.tree.tokens[b, :width].tolist(), self.tree.parents[b, :width].tolist())


def random_case(seed: int, batch: int, nodes: int, sharpness: float = 2.0) -> Case:
    """`batch` trees of 0..nodes drafted nodes each (padded to `nodes`), siblings of distinct tokens, random logits."""
    g = torch.Generator().manual_seed(seed)
    trees = [_random_tree(g, int(torch.randint(0, nodes + 1, (1,), generator=g))) for _ in range(batch)]
    tokens = torch.tensor([t + [0] * (nodes + 1 - len(t)) for t, _ in trees])
    parents = torch.tensor([p + [-1] * (nodes + 1 - len(p)) for _, p in trees])
    num_nodes = torch.tensor([len(t) - 1 for t, _ in trees])
    deepest = max(max(len(SlowTree(t, p).path(i)) for i in range(len(t))) for t, p in trees)
    tree = DraftTree(tokens, parents, num_nodes, deepest)
    logits = sharpness * torch.randn(batch, nodes + 1, VOCAB, generator=g)
    q = (sharpness * torch.randn(batch, nodes + 1, VOCAB, generator=g)).softmax(-1)
    distribution = DraftDistribution(q, torch.arange(nodes + 1), max_children=(min(nodes, VOCAB),) * deepest)
    return Case(
        tree,
        logits,
        distribution,
        trial=torch.rand(batch, deepest, max(nodes, 1), generator=g, dtype=torch.float64),
        per_depth=torch.rand(batch, deepest + 1, generator=g, dtype=torch.float64),
        final=torch.rand(batch, generator=g, dtype=torch.float64),
        seen=torch.rand(batch, VOCAB, generator=g) < 0.3,
    )


def _random_tree(g: torch.Generator, nodes: int) -> tuple[list[int], list[int]]:
    tokens, parents = [int(torch.randint(0, VOCAB, (1,), generator=g))], [-1]
    while len(tokens) < nodes + 1:
        parent = int(torch.randint(0, len(tokens), (1,), generator=g))
        taken = {t for t, p in zip(tokens, parents, strict=True) if p == parent}
        free = [t for t in range(VOCAB) if t not in taken]
        if free:
            tokens.append(free[int(torch.randint(0, len(free), (1,), generator=g))])
            parents.append(parent)
    return tokens, parents
