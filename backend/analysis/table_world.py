"""A world of 32 tokens: target and drafter are tables, and a decode loop stands around the real rules.

It is enough to sample a joint law and to hold it against the exact one.

The target is a table of logits by the last two tokens; so is the drafter, which knows the target only roughly. The
tables are conditional, so logits taken from a wrong node show. 32 tokens, trees of depth 2; decoding starts from one
fixed context, and the first three tokens are what is tested: they are emitted in one, two or three steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backend.acceptance import (
    Acceptance,
    DraftDistribution,
    Rule,
    SamplingSettings,
    Verdict,
    process_logits,
    sample_without_replacement,
    verify,
)
from backend.analysis.chi_square import conditional_p_value
from backend.trees import DraftTree, TreeShape

V = 32
START = (0, 1)  # the committed context of every sample
BATCH = 4_000  # rows at once: what a core's cache holds

_tables = torch.Generator().manual_seed(0)
TARGET = 1.5 * torch.randn(V, V, V, generator=_tables)  # [token before last, last token, next token]
DRAFTER = 0.7 * TARGET + 0.7 * torch.randn(V, V, V, generator=_tables)
DRAFT_VOCABULARY = torch.randperm(V, generator=_tables)[:20]  # of the "heads" drafter

Kind = Literal["sampled", "chosen", "heads"]
Verify = Callable[..., Acceptance]


@dataclass(frozen=True)
class Drafted:
    tree: DraftTree
    logits: Tensor  # [B, M, V], the target's
    distribution: DraftDistribution | None


def draft(
    shape: TreeShape, kind: Kind, before: Tensor, root: Tensor, temperature: float, g: torch.Generator
) -> Drafted:
    """Trees for B rows with context (before, root), each [B].

    sampled: children drawn without replacement from the drafter after their parent's own path; chosen: its best ones;
    heads: drawn as Medusa's heads would, from one distribution a depth over a reduced vocabulary, blind to the path.
    """
    columns = range(shape.num_nodes + 1)
    token: dict[int, Tensor] = {0: root}
    previous: dict[int, Tensor] = {0: before}
    q = torch.zeros(root.shape[0], len(columns), V)
    for parent in columns:
        children = [column for column in columns if shape.parents[column] == parent]
        if kind == "heads":
            logits = DRAFTER[before, root].roll(shape.depths[parent], dims=1)
            kept = torch.zeros(V).index_fill(0, DRAFT_VOCABULARY, 1.0)
            q[:, parent] = (logits / temperature).masked_fill(kept == 0, -torch.inf).softmax(-1)
        else:
            q[:, parent] = (DRAFTER[previous[parent], token[parent]] / temperature).softmax(-1)
        if children and kind == "chosen":
            drawn = q[:, parent].topk(len(children), dim=-1).indices
        elif children:
            drawn = sample_without_replacement(q[:, parent], len(children), g)
        for rank, child in enumerate(children):
            token[child], previous[child] = drawn[:, rank], token[parent]
    tokens = torch.stack([token[column] for column in columns], 1)
    logits = TARGET[torch.stack([previous[column] for column in columns], 1), tokens]
    return Drafted(DraftTree.from_shape(shape, tokens), logits, _distribution(shape, kind, q))


def _distribution(shape: TreeShape, kind: Kind, q: Tensor) -> DraftDistribution | None:
    if kind == "chosen":
        return None
    if kind == "sampled":
        return DraftDistribution(q, torch.arange(q.shape[1]), max_children=shape.max_children)
    per_depth = torch.stack([q[:, shape.depths.index(depth)] for depth in range(shape.max_depth)], 1)
    of_column = torch.tensor(shape.depths).clamp(max=shape.max_depth - 1)  # leaves have no children: any entry will do
    return DraftDistribution(per_depth[..., DRAFT_VOCABULARY], of_column, DRAFT_VOCABULARY, shape.max_children)


@dataclass
class Sample:
    """The first three tokens of many decodes as counts, and how often each branch of the rule was taken on the way."""

    counts: NDArray[np.float64] = field(default_factory=lambda: np.zeros((V, V, V)))
    accepted: int = 0  # drafted tokens committed
    later_sibling: int = 0  # of these, those that were not the first of their siblings
    residual: int = 0  # steps that ended because every child of a node was turned down

    def p_values(self, settings: SamplingSettings) -> tuple[float, float, float]:
        """Chi-square of the first token; of the second given the first; of the third given the first two."""
        law = process_logits(TARGET, settings).double().softmax(-1).numpy()
        return (
            conditional_p_value(self.counts.sum((1, 2)), law[START]),
            conditional_p_value(self.counts.sum(2), law[START[1]]),
            conditional_p_value(self.counts, law),
        )


def sample(
    shape: TreeShape, kind: Kind, settings: SamplingSettings, samples: int, seed: int, verify_with: Verify | None = None
) -> Sample:
    """Decode three tokens from START `samples` times with the rejection rule (or with `verify_with` in its place)."""
    g, result = torch.Generator().manual_seed(seed), Sample()
    for _ in range(samples // BATCH):
        _decode_three(shape, kind, settings, g, result, verify_with or _exact)
    return result


def _exact(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
    return verify(
        Rule("rejection"), drafted.tree, drafted.logits, settings, generator=g, distribution=drafted.distribution
    )


def _decode_three(
    shape: TreeShape, kind: Kind, settings: SamplingSettings, g: torch.Generator, result: Sample, verify_with: Verify
) -> None:
    context = torch.tensor(START).repeat(BATCH, 1)  # [B, 2 + tokens so far], the tokens of every row right-aligned
    out = torch.zeros(BATCH, 4, dtype=torch.int64)  # the fourth place takes what is past the third token
    filled = torch.zeros(BATCH, dtype=torch.int64)
    for _ in range(3):
        drafted = draft(shape, kind, context[:, 0], context[:, 1], settings.temperature, g)
        acceptance = verify_with(drafted, settings, g)
        _count_branches(result, drafted.tree, acceptance, filled < 3)
        tokens = drafted.tree.tokens.gather(1, acceptance.path.clamp(min=0))  # [B, D], garbage past num_accepted
        emitted = torch.cat([tokens, tokens[:, :1]], 1).scatter(
            1, acceptance.num_accepted[:, None], acceptance.next_token[:, None]
        )
        place = torch.arange(emitted.shape[1])
        past = place > acceptance.num_accepted[:, None]
        out.scatter_(1, torch.where(past, 3, (filled[:, None] + place).clamp(max=3)), emitted)
        both = torch.cat([context, emitted], 1)
        last = 2 + acceptance.num_accepted[:, None]
        context = both.gather(1, torch.cat([last - 1, last], 1))
        filled = filled + acceptance.num_accepted + 1
    code = (out[:, :3] * torch.tensor([V * V, V, 1])).sum(1)
    result.counts += torch.bincount(code, minlength=V**3).view(V, V, V).numpy()


def _count_branches(result: Sample, tree: DraftTree, acceptance: Acceptance, running: Tensor) -> None:
    taken = (acceptance.verdict == Verdict.ACCEPTED) & running[:, None]
    taken[:, 0] = False  # the root is no draft
    turned_down = (tree.parents == acceptance.last_node[:, None]) & (acceptance.verdict == Verdict.REJECTED)
    result.accepted += int(taken.sum())
    result.later_sibling += int((taken & (tree.sibling_rank > 0)).sum())
    result.residual += int((turned_down.any(1) & running).sum())
