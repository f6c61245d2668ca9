"""Growing a draft tree depth by depth, for drafters whose children depend on the path before them.

Such a drafter offers one thing: `extend`, the scores of the tokens after further nodes. Here is decided which nodes to
extend: those of a static shape, or, as in EAGLE-2 (arXiv 2406.16858, section 4), the most likely paths so far. Knows no
model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from backend.acceptance import DraftDistribution, sample_without_replacement
from backend.drafters.base import Draft
from backend.trees import DraftTree, TreeShape
from backend.trees import DynamicShape as DynamicShape

Extend = Callable[[Tensor, Tensor], Tensor]
"""(tokens int64 [B, n] of target tokens, parents int64 [B or 1, n]) -> scores [B, n, Vd] of what follows each of them.

Extended nodes are numbered in the order of extension; number 0 is the root, which is extended from the start."""

Offers = tuple[Tensor, Tensor, Tensor, Tensor]
"""Nodes of one depth that a tree may keep, each [B, n]: draft token, its log p, its path's log p, and the number of its
parent's offer (counted level by level from 0; -1: the root)."""

TIE_BREAK = 1e-5  #: a deeper path of equal likelihood ranks lower, so a child never stands without its parent


@dataclass(frozen=True)
class _Level:
    """How the nodes of one depth of a static shape are filled.

    parents: int64 [P], columns with children here; width: candidates taken from each; slots: int64 [n], where each node
    finds its token among the P * width candidates; inner: int64 [E], nodes (counted within the level) that have
    children; extended_parents: int64 [1, E], numbers of the inner nodes' parents among the extended nodes.
    """

    parents: Tensor
    width: int
    slots: Tensor
    inner: Tensor
    extended_parents: Tensor


@lru_cache(maxsize=256)
def _levels(shape: TreeShape, draw: bool, device: str) -> tuple[_Level, ...]:
    """Drawn siblings take draws in order, whatever rank the path names (see independent.plan_for)."""
    has_children = set(shape.parents)
    number = {0: 0}  # column -> number among the extended nodes
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
        inner = [i for i, column in enumerate(columns) if column in has_children]
        above = [number[shape.parents[columns[i]]] for i in inner]
        number |= {columns[i]: len(number) + place for place, i in enumerate(inner)}
        levels.append(
            _Level(
                torch.tensor(parents, device=device),
                width,
                torch.tensor([parent * width + rank for parent, rank in places], device=device),
                torch.tensor(inner, dtype=torch.int64, device=device),
                torch.tensor([above], dtype=torch.int64, device=device),
            )
        )
    return tuple(levels)


def grow_static(
    roots: Tensor,
    root_scores: Tensor,
    extend: Extend,
    shape: TreeShape,
    token_map: Tensor | None,
    temperature: float,
    generator: torch.Generator | None,
) -> Draft:
    """Fill `shape` for roots int64 [B], given the scores after the root [B, 1, Vd].

    With a generator (and a temperature above 0) siblings are drawn without replacement; without one the best are
    chosen. `token_map` int64 [Vd]: target token of each draft token, None when they are the same.
    """
    draw = generator is not None and temperature > 0
    tokens = roots[:, None]
    chance = torch.full((len(roots), 1), float("nan"), device=roots.device)
    scores, drawn_from, inner = root_scores, [], []
    for level in _levels(shape, draw, str(roots.device)):
        probs = torch.softmax(scores.float() / (temperature if draw else 1.0), dim=-1)  # [B, P, Vd]
        if draw:
            best = sample_without_replacement(probs, level.width, generator)  # [B, P, W]
            drawn_from.append(probs)
            inner.append(level.parents)
        else:
            best = probs.topk(level.width, dim=-1).indices
        picked = best.flatten(1)[:, level.slots]  # [B, n]
        found = picked if token_map is None else token_map[picked]
        tokens = torch.cat([tokens, found], dim=1)
        chance = torch.cat([chance, probs.gather(-1, best).flatten(1)[:, level.slots]], dim=1)
        if level.inner.numel():
            scores = extend(found[:, level.inner], level.extended_parents)
    tree = DraftTree.from_shape(shape, tokens)
    return Draft(tree, chance, _distribution(drawn_from, inner, shape, token_map) if draw else None)


def _distribution(
    probs: list[Tensor], inner: list[Tensor], shape: TreeShape, token_map: Tensor | None
) -> DraftDistribution:
    columns = torch.cat(inner)  # [K], the inner nodes in the order of their distributions
    of_column = torch.zeros(shape.num_nodes + 1, dtype=torch.int64, device=columns.device)
    of_column[columns] = torch.arange(len(columns), device=columns.device)
    return DraftDistribution(torch.cat(probs, dim=1), of_column, token_map, shape.max_children)


def grow_dynamic(
    roots: Tensor, root_scores: Tensor, extend: Extend, shape: DynamicShape, token_map: Tensor | None
) -> Draft:
    """The most likely paths by the drafter's own probabilities, for roots int64 [B] and scores after them [B, 1, Vd].

    At each level the `top_k` most likely nodes of the last one are extended and offer `top_k` children each; of all
    nodes offered the `num_nodes` with the greatest product of probabilities along their path are kept. Children are
    chosen, never drawn: which ones stay depends on their own probabilities, so only the p(x) rule is exact here.
    """
    batch, device, k = len(roots), roots.device, shape.top_k
    width = min(k, root_scores.shape[-1])
    own, best = torch.log_softmax(root_scores[:, 0].float(), dim=-1).topk(width, dim=-1)  # [B, k]
    total = own - TIE_BREAK
    offers: list[Offers] = [(best, own, total, torch.full_like(best, -1))]
    frontier = torch.arange(width, device=device).expand(batch, -1)  # [B, k], offers to extend next
    above = torch.zeros(batch, width, dtype=torch.int64, device=device)  # their parents among the extended nodes
    count, extended = width, 1
    for _ in range(shape.depth - 1):
        best, total = offers[-1][0], offers[-1][2]
        local = frontier - (count - best.shape[1])
        tokens, so_far = best.gather(1, local), total.gather(1, local)
        scores = extend(tokens if token_map is None else token_map[tokens], above)
        own, best = torch.log_softmax(scores.float(), dim=-1).topk(width, dim=-1)  # [B, k, k]
        total = (so_far[..., None] + own - TIE_BREAK).flatten(1)
        offers.append((best.flatten(1), own.flatten(1), total, frontier.repeat_interleave(width, dim=1)))
        chosen = total.topk(width, dim=-1).indices.sort(dim=-1).values  # [B, k] of the k * k
        frontier, above = chosen + count, chosen // width + extended
        count, extended = count + total.shape[1], extended + tokens.shape[1]
    return most_likely(roots, offers, shape, token_map)


def most_likely(roots: Tensor, offers: list[Offers], shape: DynamicShape, token_map: Tensor | None) -> Draft:
    """The tree of the most likely offers. Offers are numbered level by level, so a parent stands left of its child."""
    tokens, own, total, parent = (torch.cat(parts, dim=1) for parts in zip(*offers, strict=True))
    kept = total.topk(min(shape.num_nodes, total.shape[1]), dim=-1).indices.sort(dim=-1).values  # [B, N]
    batch, nodes = kept.shape
    column = torch.zeros(batch, total.shape[1] + 1, dtype=torch.int64, device=roots.device)  # last: the root's, 0
    column.scatter_(1, kept, torch.arange(1, nodes + 1, device=roots.device).expand(batch, -1))
    above = parent.gather(1, kept)
    parents = column.gather(1, torch.where(above < 0, total.shape[1], above))
    picked = tokens.gather(1, kept)
    found = picked if token_map is None else token_map[picked]
    root_parent = torch.full((batch, 1), -1, dtype=torch.int64, device=roots.device)
    tree = DraftTree(
        torch.cat([roots[:, None], found], dim=1),
        torch.cat([root_parent, parents], dim=1),
        torch.full((batch,), nodes, device=roots.device),
        len(offers),
    )
    chance = torch.nn.functional.pad(own.gather(1, kept).exp(), (1, 0), value=float("nan"))
    return Draft(tree, chance)
