"""N-gram (prompt) lookup: find the last n committed tokens earlier in the text and propose what followed them.

No weights and no state: everything comes from the committed tokens, vectorised over rows and positions without asking
the device anything. The longest n wins, then the latest occurrence. A match p tokens back says that the text repeats
with period p, so a proposal that reaches the end of the text goes on periodically. Knows no model; its children are
*chosen*, not sampled.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.drafters.base import Draft, DraftContext, Stateless
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.plain.drafter import root_draft
from backend.errors import HeadwayError
from backend.trees import DraftTree, TreeShape, chain
from backend.trees.tree import PADDING


class NgramDrafter(Stateless):
    """Proposes a chain after every row that has a match; rows without one are padded to the root alone."""

    family = "ngram"
    name = "ngram"
    sampled = False

    def __init__(self, config: NgramConfig) -> None:
        if config.min_n > config.max_n:
            raise HeadwayError(
                f"The shortest n-gram ({config.min_n}) is longer than the longest ({config.max_n}); swap them."
            )
        self.config = config
        self.shape = chain(config.num_tokens)

    def with_shape(self, shape: TreeShape) -> NgramDrafter:
        if shape != chain(shape.max_depth) or not 1 <= shape.num_nodes <= 32:
            raise HeadwayError("N-gram lookup proposes one chain of 1 to 32 tokens; choose a tree such as chain-6.")
        return NgramDrafter(self.config.model_copy(update={"num_tokens": shape.num_nodes}))

    def with_sampled(self, sampled: bool) -> NgramDrafter:
        return self

    def draft(self, context: DraftContext) -> Draft:
        depth = min(self.config.num_tokens, context.max_depth)
        if depth < 1:
            return root_draft(context)
        end = latest_match(context.tokens, context.lengths, self.config.max_n, self.config.min_n)  # [B]
        if context.tokens.device.type == "cpu" and not bool((end >= 0).any()):
            return root_draft(context)  # asking is free on a CPU, and there verifying padding costs real time
        return chain_after(context, end, depth)


def latest_match(tokens: Tensor, lengths: Tensor, max_n: int, min_n: int) -> Tensor:
    """Where the longest matching suffix last ended before the end of the text.

    Args:
        tokens: int64 [B, C]; columns at and past `lengths` are ignored.
        lengths: int64 [B].

    Returns int64 [B]: the column of the last token of the latest earlier occurrence, -1 when there is none.
    """
    rows, width = tokens.shape
    columns = torch.arange(width, device=tokens.device)
    earlier = (
        columns[None] < lengths[:, None] - 1
    )  # [B, C]: at least one token follows, and it is not the suffix itself
    run = earlier
    best = torch.full((rows,), -1, dtype=torch.int64, device=tokens.device)
    for n in range(1, max_n + 1):
        # run[b, e]: the n tokens that end at column e equal the last n tokens of the row
        back = (lengths - n)[:, None]
        last = tokens.gather(1, back.clamp(min=0))  # [B, 1], the n-th token from the end
        shifted = torch.nn.functional.pad(tokens, (n - 1, 0), value=-1)[:, :width]  # [b, e] = tokens[b, e - n + 1]
        run = run & (shifted == last) & (back >= 0)
        if n >= min_n:
            found = torch.where(run, columns[None], -1).amax(dim=1)  # [B]
            best = torch.where(found >= 0, found, best)
    return best


def chain_after(context: DraftContext, end: Tensor, depth: int) -> Draft:
    """A chain of `depth` tokens that continues from column `end` [B]; rows with end -1 get none."""
    steps = torch.arange(depth, device=end.device)  # [K]
    period = (context.lengths - 1 - end)[:, None]  # [B, 1], how far back the match lies
    source = (end[:, None] + 1 + steps % period.clamp(min=1)).clamp(min=0)
    proposed = context.tokens.gather(1, source)  # [B, K]
    tokens = torch.cat([context.roots[:, None], torch.where(end[:, None] >= 0, proposed, 0)], dim=1)
    matched = end >= 0
    hang = torch.where(matched[:, None], steps[None], PADDING)  # column j + 1 hangs under column j
    parents = torch.cat([torch.full_like(hang[:, :1], PADDING), hang], dim=1)
    tree = DraftTree(tokens, parents, torch.where(matched, depth, 0), depth)
    return Draft(tree, torch.full_like(tokens, float("nan"), dtype=torch.float32))
