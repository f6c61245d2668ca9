"""Exact rejection on trees: whatever was drafted, the committed tokens have the target's distribution.

Two rules, for two kinds of draft. Both take their randomness as uniform numbers, and neither knows the model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.acceptance.result import Acceptance, DraftDistribution, acceptance_from
from backend.acceptance.sampling import draw
from backend.acceptance.walk import TargetRows, blank_numbers, children_of, first_column, follow


def verify_chosen(rows: TargetRows, uniform: Tensor) -> Acceptance:
    """Rejection for *chosen* children (top-k, n-gram, greedy chains): draw a token from p, descend if it was drafted.

    Args:
        rows: the target's logits for the tree.
        uniform: float64 [B, D + 1] in [0, 1), one number for each depth a walk may reach.

    The rule in the literature tries the children one by one (q is one-hot): accept c_i with probability p(c_i), else
    set p(c_i) = 0, renormalise, try the next; when all fail, emit a token from what is left of p. This is the same in
    law. Before child i is tried, c_1..c_{i-1} have been zeroed, so it is accepted with probability p(c_i) / (1 -
    sum_{j<i} p(c_j)); times the probability prod_{j<i} (1 - accepted_j) = 1 - sum_{j<i} p(c_j) that it is tried at all,
    that is p(c_i). And a token x that is no child is emitted with probability (1 - sum_j p(c_j)) * p(x) / (1 - sum_j
    p(c_j)) = p(x). So each token is the outcome with its own p: one draw from p decides between all children and the
    correction.

    Score: p of the node's token at its parent; threshold: p of the token that the target drew there.
    """

    def drawn(logits: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        probs = logits.softmax(-1)
        return draw(probs, uniform[:, depth]), probs

    return follow(rows, drawn)


def verify_sampled(rows: TargetRows, q: DraftDistribution, trial: Tensor, final: Tensor) -> Acceptance:
    """Rejection for children *sampled without replacement* from q: multi-step speculative sampling (arXiv:2305.09781).

    `trial` float64 [B, D, K] in [0, 1) holds one u for each depth and sibling; `final` [B] draws the token at the end.

    At a node with target distribution p, for its children c_1..c_m in drawing order:
      q_i is q without c_1..c_{i-1}, renormalised (what c_i was drawn from);
      accept c_i when u < p(c_i) / q_i(c_i), and descend to it with its own p and q;
      else p <- normalise(max(p - q_i, 0)), the *residual*, and try the next sibling.
    When all children fail, the token emitted is drawn from the residual; at a leaf, from p.

    Score: the acceptance ratio min(1, p / q_i); threshold: u. Siblings right of an accepted one are never looked at.
    """
    tree = rows.tree
    node = torch.zeros_like(tree.tokens[:, 0])
    looked_at = torch.zeros_like(tree.tokens, dtype=torch.bool)
    score, threshold = blank_numbers(tree, node), blank_numbers(tree, node)
    p = rows.probs_at(node)  # [B, V], shrinks to the residual as siblings fail
    for depth, siblings in enumerate(siblings_per_depth(rows, q)):
        parent, undrawn = node, q.rows(node, p.shape[-1])  # [B, V]: q without the siblings tried, not renormalised
        descended = torch.zeros_like(looked_at[:, 0])
        for rank in range(siblings):
            # A row that stopped at an earlier depth has nothing left to try where it stands.
            child = children_of(tree, parent) & (tree.sibling_rank == rank) & ~looked_at & ~descended[:, None]
            column = first_column(child)
            token = tree.tokens.gather(1, column[:, None])  # [B, 1]
            q_i = without_replacement(undrawn, token)
            ratio = (p.gather(1, token) / q_i.gather(1, token)).clamp(max=1)  # [B, 1]
            u = trial[:, depth, rank, None]
            score, threshold = torch.where(child, ratio, score), torch.where(child, u.to(score), threshold)
            accepted = (child & (u < ratio)).any(1)
            node = torch.where(accepted, column, node)
            p = torch.where((child & (u >= ratio)).any(1, keepdim=True), residual(p, q_i), p)
            undrawn = undrawn.scatter(1, token, 0.0)
            looked_at, descended = looked_at | child, descended | accepted
        p = torch.where(descended[:, None], rows.probs_at(node), p)
    return acceptance_from(tree, node, draw(p, final), looked_at, score, threshold)


def siblings_per_depth(rows: TargetRows, q: DraftDistribution) -> tuple[int, ...]:
    """How many siblings a node may have at depth 1, 2, ..., known without asking the device."""
    tree = rows.tree
    known = q.max_children or (tree.width - 1,) * tree.max_depth
    return tuple(known[: tree.max_depth])


def without_replacement(undrawn: Tensor, token: Tensor) -> Tensor:
    """q_i float [B, V]: `undrawn` [B, V] renormalised, what token [B, 1] was drawn from.

    A token that `undrawn` gives no weight was not drawn from it: it repeats an earlier sibling, or the drafter ran out
    of tokens with any probability. It counts as chosen, and its q_i is one-hot: still exact, and a duplicate is never
    tried twice with success, for the first rejection left it no residual.
    """
    weight = undrawn.gather(1, token)
    scale = torch.where(weight > 0, 1 / undrawn.sum(1, keepdim=True), 0.0)
    return (undrawn * scale).scatter_(1, token, torch.where(weight > 0, weight * scale, 1.0))


def residual(p: Tensor, q: Tensor) -> Tensor:
    """normalise(max(p - q, 0)) float [B, V]. Where nothing is left (p = q, and rejection is rounding's work), p
    itself."""
    rest = (p - q).clamp_min_(0)
    mass = rest.sum(1, keepdim=True)
    return torch.where(mass > 0, rest / mass, p)
