"""Drafting with a separate, smaller causal language model that has the same tokenizer.

It is run like a target: it keeps its own cache of the committed text and grows a static tree depth by depth, one pass
over the tree so far for each depth. Before drafting it reads the committed tokens it has not seen, the last accepted
one among them, whether it drafted them itself or not. Knows nothing of acceptance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from backend.acceptance import DraftDistribution, sample_without_replacement
from backend.drafters.base import Draft, DraftContext, Stateless
from backend.drafters.draft_model.config import DraftModelConfig
from backend.drafters.plain.drafter import root_draft
from backend.errors import HeadwayError, MismatchError
from backend.targets.kv_cache import KVCache
from backend.targets.target import Target
from backend.trees import DraftTree, TreeShape, chain
from backend.trees.tree import PADDING


@dataclass(frozen=True)
class _Level:
    """How the nodes of one depth are filled from their parents' next-token distributions.

    parents: int64 [P], columns with children at this depth; width: candidates taken from each; slots: int64 [n], where
    each node of the depth finds its token among the P * width candidates.
    """

    parents: Tensor
    width: int
    slots: Tensor


@lru_cache(maxsize=256)
def _levels(shape: TreeShape, draw: bool, device: str) -> tuple[_Level, ...]:
    """One `_Level` a depth. Drawn siblings take draws in order, whatever rank the path names (see
    independent.plan_for).
    """
    levels = []
    for depth in range(1, shape.max_depth + 1):
        columns = [c for c, d in enumerate(shape.depths) if d == depth]
        parents = sorted({shape.parents[c] for c in columns})
        taken = dict.fromkeys(parents, 0)
        places: list[tuple[int, int]] = []
        for column in columns:
            parent = shape.parents[column]
            places.append((parents.index(parent), taken[parent] if draw else shape.ranks[column]))
            taken[parent] += 1
        width = 1 + max(rank for _, rank in places)
        slots = [parent * width + rank for parent, rank in places]
        levels.append(_Level(torch.tensor(parents, device=device), width, torch.tensor(slots, device=device)))
    return tuple(levels)


class DraftModelDrafter(Stateless):
    """Fills a static tree from a smaller model's own next-token distributions.

    Every row has an entry in the model's cache; `draft` works for the rows given to `start`, in that order.
    """

    family = "draft_model"

    def __init__(self, model: Target, vocab_size: int, shape: TreeShape, sampled: bool = False) -> None:
        """`vocab_size` is the target's; padded rows that only one of the two models has are never drafted."""
        self.model, self.vocab_size, self.shape, self.sampled = model, vocab_size, shape, sampled
        self.name = f"draft:{model.name}"
        self._limit = min(vocab_size, model.vocab_size)
        self._cache: KVCache | None = None

    def with_shape(self, shape: TreeShape) -> DraftModelDrafter:
        return DraftModelDrafter(self.model, self.vocab_size, shape, self.sampled)

    def with_sampled(self, sampled: bool) -> DraftModelDrafter:
        return DraftModelDrafter(self.model, self.vocab_size, self.shape, sampled)

    def start(self, rows: int, capacity: int) -> None:
        if capacity > self.model.max_context:
            raise HeadwayError(
                f"{self.name} can read {self.model.max_context} tokens and the decode needs room for {capacity}; "
                "shorten it or choose another drafter."
            )
        # A pass writes its columns behind the committed ones before it knows which stay: the tree's, or the unseen
        # tokens'.
        room = capacity + max(self.shape.num_nodes, self.shape.max_depth + 1) + 1
        self._cache = KVCache(self.model.num_layers, rows, room, self.model.device)

    def replace_rows(self, rows: Sequence[int]) -> None:
        assert self._cache is not None, "start comes before replace_rows"
        for row in rows:
            self._cache.clear(row)

    def move_row(self, source: int, target: int) -> None:
        assert self._cache is not None, "start comes before move_row"
        self._cache.copy_row(source, target)

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        assert self._cache is not None, "start comes before draft"
        lengths = context.host_lengths or context.lengths.tolist()
        depth = min(self.shape.max_depth, context.max_depth, self.model.max_context - max(lengths))
        if depth < 1:
            return root_draft(context)
        shape = self.shape.cut(depth)
        logits = self._catch_up(self._cache, context, lengths)[:, None]  # [B, 1, V], after the root
        return self._grow(self._cache, context, shape, logits)

    def _catch_up(self, cache: KVCache, context: DraftContext, lengths: Sequence[int]) -> Tensor:
        """Read the committed tokens that are new; leaves the root uncounted. Returns logits after the root, [B, V]."""
        for row, length in enumerate(lengths):
            if cache.lengths[row] >= length:  # another text than before
                cache.clear(row)
            if cache.lengths[row] == 0 and length > 1:
                self.model.prefill(cache, row, context.tokens[row, : length - 1].tolist())
        rows = slice(0, len(lengths))
        seen = cache.lengths[rows]
        unseen = [length - known for length, known in zip(lengths, seen, strict=True)]
        tree = _unseen_text(context, cache.lengths_on_device(rows), max(unseen))
        logits = self.model.tree_pass(cache, tree, rows).logits
        cache.advance(rows, [count - 1 for count in unseen])
        return logits[torch.arange(len(unseen), device=logits.device), tree.num_nodes]

    def _grow(self, cache: KVCache, context: DraftContext, shape: TreeShape, logits: Tensor) -> Draft:
        """Fill the tree depth by depth; `logits` [B, 1, Vd] are those after the root."""
        draw = self.sampled and context.temperature > 0
        levels = _levels(shape, draw, str(context.tokens.device))
        tokens, chance = context.roots[:, None], torch.full_like(logits[:, :, 0], float("nan"), dtype=torch.float32)
        drawn_from, inner = [], []
        for depth, level in enumerate(levels, start=1):
            if depth > 1:
                so_far = DraftTree.from_shape(shape.cut(depth - 1), tokens)
                logits = self.model.tree_pass(cache, so_far).logits[:, level.parents]  # [B, P, Vd]
            scores = logits[..., : self._limit].float() / (context.temperature if draw else 1.0)
            probs = torch.softmax(scores, dim=-1)
            if draw:
                best = sample_without_replacement(probs, level.width, context.generator)  # [B, P, W]
                drawn_from.append(probs)
                inner.append(level.parents)
            else:
                best = probs.topk(level.width, dim=-1).indices
            tokens = torch.cat([tokens, best.flatten(1)[:, level.slots]], dim=1)
            chance = torch.cat([chance, probs.gather(-1, best).flatten(1)[:, level.slots]], dim=1)
        tree = DraftTree.from_shape(shape, tokens)
        return Draft(tree, chance, self._distribution(drawn_from, inner, shape) if draw else None)

    def _distribution(self, probs: list[Tensor], inner: list[Tensor], shape: TreeShape) -> DraftDistribution:
        columns = torch.cat(inner)  # [K], the inner nodes in the order of their distributions
        of_column = torch.zeros(shape.num_nodes + 1, dtype=torch.int64, device=columns.device)
        of_column[columns] = torch.arange(len(columns), device=columns.device)
        same = self._limit == self.vocab_size
        vocabulary = None if same else torch.arange(self._limit, device=columns.device)
        return DraftDistribution(torch.cat(probs, dim=1), of_column, vocabulary, shape.max_children)


def _unseen_text(context: DraftContext, seen: Tensor, width: int) -> DraftTree:
    """The committed tokens from column `seen` [B] on, the root last, as chains padded to `width`."""
    steps = torch.arange(width, device=seen.device)  # [U]
    columns = torch.minimum(seen[:, None] + steps, context.lengths[:, None] - 1)
    num_nodes = context.lengths - seen - 1
    parents = torch.where(steps <= num_nodes[:, None], steps - 1, PADDING)  # column 0 gets -1 either way
    return DraftTree(context.tokens.gather(1, columns), parents, num_nodes, width - 1)


#: name -> a loaded target; whoever owns the device hands it in, and may hand out one that is loaded already
OpenTarget = Callable[[str], Target]


def load_draft_model(
    name: str, target: Target, open_target: OpenTarget, force: bool = False
) -> tuple[DraftModelDrafter, list[str]]:
    """Load a draft model for `target`. Raises MismatchError when their tokenizers differ (unless forced), HeadwayError
    otherwise.
    """
    if not name.strip():
        raise HeadwayError("Name the draft model after 'draft:', for example draft:smollm2-135m.")
    config = DraftModelConfig(model=name.strip())
    model = open_target(config.model)
    warnings = []
    if model.identity.tokenizer_id != target.identity.tokenizer_id:
        sentence = (
            f"{model.name} and {target.name} have different tokenizers, so their tokens mean different things; "
            "choose a draft model of the same family."
        )
        if not force:
            raise MismatchError(sentence)
        warnings.append(f"Forced: {sentence}")
    return DraftModelDrafter(model, target.vocab_size, chain(config.depth)), warnings
