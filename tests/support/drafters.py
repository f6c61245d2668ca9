"""Drafters for tests: an oracle with noise that fills any tree, and Medusa heads with random weights."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from backend.drafters.base import Draft, DraftContext, Stateless
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.drafter import MedusaDrafter
from backend.drafters.medusa.model import HeadsForDrafting, MedusaHeads
from backend.drafters.plain.drafter import root_draft
from backend.targets.target import Target
from backend.trees import DraftTree, TreeShape
from backend.trees.tree import PADDING


class OracleDrafter(Stateless):
    """Knows how the texts go on and says so with probability `hit` at each depth, at a random place among siblings.

    Every other node gets a random token; siblings differ. With `ragged` a row keeps a random number of its nodes, so
    that rows are padded. Its chance comes from the row's own text, so a row is drafted for as if it were alone.
    """

    family, name, sampled = "oracle", "oracle", False

    def __init__(
        self, texts: Sequence[Sequence[int]], shape: TreeShape, hit: float = 0.8, ragged: bool = False, seed: int = 0
    ) -> None:
        self.texts, self.shape, self.hit, self.ragged = [list(text) for text in texts], shape, hit, ragged
        self.seed = seed

    def with_shape(self, shape: TreeShape) -> OracleDrafter:
        return OracleDrafter(self.texts, shape, self.hit, self.ragged, self.seed)

    def with_sampled(self, sampled: bool) -> OracleDrafter:
        return self

    def start(self, rows: int, capacity: int) -> None:
        self.rows = rows

    def replace_rows(self, rows: Sequence[int]) -> None:
        assert all(0 <= row < self.rows for row in rows)

    def draft(self, context: DraftContext) -> Draft:
        shape = self.shape.cut(context.max_depth)
        if not shape.num_nodes:
            return root_draft(context)
        lengths = context.lengths.tolist()
        assert lengths == list(context.host_lengths or lengths)
        rows = [self._row(shape, context.tokens[row, :length].tolist()) for row, length in enumerate(lengths)]
        parents = [[p if c <= n else PADDING for c, p in enumerate(shape.parents)] for _, n in rows]
        tokens, counts = torch.tensor([row for row, _ in rows]), torch.tensor([n for _, n in rows])
        tree = DraftTree(tokens, torch.tensor(parents), counts, shape.max_depth)
        return Draft(tree, torch.full(tree.tokens.shape, float("nan")))

    def _row(self, shape: TreeShape, text: list[int]) -> tuple[list[int], int]:
        """Tokens of all columns, and how many drafted ones to keep."""
        rng = random.Random(f"{self.seed} {text}")
        keep = rng.random() if self.ragged else 1.0
        future = next((known[len(text) :] for known in self.texts if known[: len(text)] == text), [])
        tokens, right = [text[-1]] + [0] * shape.num_nodes, {0}  # columns on the path that will come true
        for parent in range(shape.num_nodes + 1):
            children = [column for column, up in enumerate(shape.parents) if up == parent]
            for child, token in zip(children, rng.sample(range(250), len(children)), strict=True):
                tokens[child] = token
            depth = shape.depths[parent]
            if children and parent in right and depth < len(future) and rng.random() < self.hit:
                lucky = next((c for c in children if tokens[c] == future[depth]), rng.choice(children))
                tokens[lucky] = future[depth]
                right.add(lucky)
        return tokens, round(keep * shape.num_nodes)


def random_medusa(target: Target, shape: TreeShape, vocabulary: int | None = None, seed: int = 0) -> MedusaDrafter:
    """Heads that start as copies of the LM head and have random residual blocks."""
    config = MedusaConfig(hidden_size=target.hidden_size, vocab_size=target.vocab_size, draft_vocab_size=vocabulary)
    heads, generator = MedusaHeads(config), torch.Generator().manual_seed(seed)
    heads.initialise(target.lm_head_weight(), None if vocabulary is None else torch.arange(vocabulary))
    with torch.no_grad():
        heads.block_weight.normal_(0.0, 0.1, generator=generator)
    return MedusaDrafter("random", HeadsForDrafting(heads.to(target.device)), shape)
