"""Drafts that a grammar would throw away anyway are replaced before they are checked.

A drafted token that the grammar forbids where it stands can't be accepted; its place in the tree is lost. So it is
replaced by a token that must follow there, where the grammar leaves no choice, else by the likeliest allowed token of
the drafter's own scores, where it has any that do not depend on the path. Which tokens are tried changes, and nothing
else: replaced children are chosen by what was known before, so the p(x) rule stays exact. Siblings that were drawn at
random are left alone, since their distribution would no longer be the one they were drawn from. Knows no target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from backend.decoding.grammar import BITS, Choose, GrammarRow, forbid
from backend.drafters.base import Draft


def held_draft(draft: Draft, grammars: Sequence[GrammarRow], hold: bool = True) -> tuple[Draft, Tensor]:
    """The draft with forbidden tokens replaced where something better is known (or as it is, without `hold`), and what
    each row's grammar allows behind each column: int32 [B, M, ceil(V / 32)] on the tree's device.
    """
    tree, may = draft.tree, hold and draft.distribution is None
    tokens, parents = tree.tokens.tolist(), tree.parents.expand(tree.batch, -1).tolist()
    scores = None if draft.scores is None else draft.scores.cpu()
    token_map = None if draft.token_map is None else draft.token_map.cpu()
    chooser: list[Choose | None] = [None] * tree.batch
    if may:
        depths = tree.depths.expand(tree.batch, -1).tolist()
        own = [None if scores is None else scores[:, row] for row in range(tree.batch)]
        chooser = [_chooser(depths[row], own[row], token_map) for row in range(tree.batch)]
    found = [one.held(*given) for one, *given in zip(grammars, tokens, parents, chooser, strict=True)]
    masks = torch.stack([mask for _, mask in found]).to(tree.tokens.device)
    kept = torch.tensor([one for one, _ in found], device=tree.tokens.device)
    changed = kept != tree.tokens
    if not may or not bool(changed.any()):
        return draft, masks
    chance = draft.draft_prob.masked_fill(changed, float("nan"))  # of these the drafter was not asked
    return replace(draft, tree=replace(tree, tokens=kept), draft_prob=chance), masks


def _chooser(depths: Sequence[int], scores: Tensor | None, token_map: Tensor | None) -> Choose:
    """For one row: depths of its columns, scores [D, Vd] and token_map [Vd]."""

    def choose(column: int, mask: Tensor, drafted: list[int], forced: list[int]) -> list[int]:
        bad = [place for place, token in enumerate(drafted) if not _allowed(mask, token)]
        if not bad:
            return drafted
        taken = {token for place, token in enumerate(drafted) if place not in bad}
        others = [token for token in forced[:1] if token not in taken]
        if len(others) < len(bad) and scores is not None and depths[column] < len(scores):
            others += [t for t in _likeliest(scores[depths[column]], token_map, mask, len(drafted) + 1)
                       if t not in taken and t not in others]  # fmt: skip
        made = list(drafted)
        for place, token in zip(bad, others, strict=False):
            made[place] = token
        return made

    return choose


def _allowed(mask: Tensor, token: int) -> bool:
    return bool((int(mask[token // BITS]) >> (token % BITS)) & 1)


def _likeliest(scores: Tensor, token_map: Tensor | None, mask: Tensor, count: int) -> list[int]:
    """The best `count` allowed target tokens by scores [Vd], best first; fewer where fewer are allowed."""
    size = len(mask) * BITS
    wide = torch.full((size,), -torch.inf)
    if token_map is None:
        wide[: len(scores)] = scores.float()
    else:
        wide[token_map] = scores.float()
    best = forbid(wide, mask).topk(min(count, size))
    return [int(token) for value, token in zip(best.values, best.indices, strict=True) if value > -torch.inf]
