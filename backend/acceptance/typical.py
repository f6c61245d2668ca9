"""Typical acceptance (Medusa, arXiv:2401.10774, section 3.3): accept what the target finds plausible. *Approximate*.

It raises acceptance length by changing the distribution of the output; whoever shows it must say so. It needs the rows
of all inner nodes, because the longest accepted path wins, and it knows no draft probabilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.acceptance.processors import process_logits, seen_by_node
from backend.acceptance.result import Acceptance, acceptance_from
from backend.acceptance.sampling import draw
from backend.acceptance.walk import TargetRows


def verify_typical(rows: TargetRows, epsilon: float, delta: float, final: Tensor) -> Acceptance:
    """Accept x when p(x) > min(epsilon, delta * exp(-H)), H being the entropy of p at its parent (in nats).

    A node counts only when all its ancestors passed. The longest accepted path wins; of several, the one with the
    highest sum of log-probabilities. The next token is drawn from p after the last accepted node, with `final` float64
    [B] in [0, 1).

    Score: p of the node's token at its parent; threshold: the right side of the test.
    """
    tree = rows.tree
    log_p, entropy = _log_probs_and_entropy(rows)
    row = torch.arange(tree.batch, device=log_p.device)[:, None]
    parent = tree.parent_columns()  # [B, M]
    token_log_p = log_p[row, parent, tree.tokens]  # [B, M]
    threshold = (delta * torch.exp(-entropy)).clamp(max=epsilon)[row, parent]  # [B, M]
    passed = token_log_p.exp() > threshold

    drafted = tree.parents.expand(tree.batch, -1) >= 0
    failed = drafted & ~passed  # the root needs no test
    accepted = tree.real & ~(tree.ancestors & failed[:, None, :]).any(-1)
    depth = tree.depths.expand(tree.batch, -1)
    longest = (depth * accepted).amax(1, keepdim=True)
    path_log_p = torch.where(tree.ancestors & drafted[:, None, :], token_log_p[:, None, :], 0.0).sum(-1)
    candidate = accepted & (depth == longest)
    last_node = path_log_p.masked_fill(~candidate, -torch.inf).argmax(1)

    next_token = draw(rows.probs_at(last_node), final)
    on_path = tree.ancestors.expand(tree.batch, -1, -1)[row[:, 0], last_node]
    looked_at = drafted & on_path.gather(1, parent)
    score = token_log_p.exp().masked_fill(~drafted, torch.nan)
    return acceptance_from(tree, last_node, next_token, looked_at, score, threshold.masked_fill(~drafted, torch.nan))


def _log_probs_and_entropy(rows: TargetRows) -> tuple[Tensor, Tensor]:
    """log p float32 [B, M, V] and its entropy float32 [B, M], in nats, for every column."""
    seen = None if rows.seen is None or not rows.settings.needs_seen else seen_by_node(rows.seen, rows.tree)
    log_p = process_logits(rows.logits, rows.settings, seen).log_softmax(-1)
    # A removed token has p = 0 and log p = -inf; its p log p is 0, and any finite stand-in for the logarithm says so.
    entropy = -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(-1)
    return log_p, entropy
