"""The one copy from the device to the host that a step makes, and what is read out of it.

Everything the host wants to know of B rows is laid side by side in one float64 tensor (token ids are exact in it),
copied once, and cut up again. With detail *counts* these are a dozen numbers a row; with *full* the whole tree with its
probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.acceptance import Acceptance, SamplingSettings, process_logits, seen_by_node
from backend.decoding.records import Detail, TreeTrace
from backend.decoding.rows import StepNumbers
from backend.drafters.base import Draft


@dataclass(frozen=True)
class Readout:
    """Columns of the packed copy: name -> width, in order."""

    packed: Tensor  # float64 [B, sum of widths]
    widths: tuple[tuple[str, int], ...]

    def to_host(self) -> list[dict[str, list[float]]]:
        """The copy: one dictionary a row."""
        rows = self.packed.tolist()
        result = []
        for values in rows:
            named, start = {}, 0
            for name, width in self.widths:
                named[name] = values[start : start + width]
                start += width
            result.append(named)
        return result


def committed_tokens(draft: Draft, accepted: Acceptance) -> Tensor:
    """int64 [B, D + 1]: accepted tokens, the target's next token behind them, garbage after that."""
    tokens = draft.tree.tokens.gather(1, accepted.path.clamp(min=0))
    room = torch.cat([tokens, accepted.next_token[:, None]], dim=1)
    return room.scatter(1, accepted.num_accepted[:, None], accepted.next_token[:, None])


def pack(
    draft: Draft,
    accepted: Acceptance,
    committed: Tensor,
    logits: Tensor,
    sampling: SamplingSettings,
    seen: Tensor | None,
    detail: Detail,
) -> Readout:
    """Lay out what the host will read; runs on the device and copies nothing."""
    tree = draft.tree
    tried = (tree.parents.expand(tree.batch, -1) == accepted.last_node[:, None]).any(1)
    parts: list[tuple[str, Tensor]] = [
        ("committed", committed),
        ("num_accepted", accepted.num_accepted[:, None]),
        ("num_drafted", tree.num_nodes[:, None]),
        ("tried", (accepted.num_accepted + tried)[:, None]),
    ]
    if detail is not Detail.COUNTS:
        parts.append(("path", accepted.path))
    if detail is Detail.FULL:
        parts += _tree_parts(draft, accepted, logits, sampling, seen)
    widths = tuple((name, tensor.shape[1]) for name, tensor in parts)
    return Readout(torch.cat([tensor.to(torch.float64) for _, tensor in parts], dim=1), widths)


def _tree_parts(
    draft: Draft, accepted: Acceptance, logits: Tensor, sampling: SamplingSettings, seen: Tensor | None
) -> list[tuple[str, Tensor]]:
    tree = draft.tree
    at_nodes = seen_by_node(seen, tree) if seen is not None and sampling.needs_seen else None
    probs = process_logits(logits, sampling, at_nodes).softmax(-1)  # [B, M, V]
    best_prob, best = probs.max(-1)
    parent = tree.parent_columns()
    at_parent = torch.gather(probs, 1, parent[..., None].expand(-1, -1, probs.shape[-1]))
    own = at_parent.gather(2, tree.tokens[..., None])[..., 0]
    return [
        ("tokens", tree.tokens),
        ("parents", tree.parents.expand(tree.batch, -1)),
        ("verdicts", accepted.verdict),
        ("draft_probs", draft.draft_prob),
        ("target_probs", own),
        ("scores", accepted.score),
        ("thresholds", accepted.threshold),
        ("best_tokens", best),
        ("best_probs", best_prob),
        ("entropies", torch.special.entr(probs).sum(-1)),
    ]


def numbers_of(row: dict[str, list[float]], pieces: Callable[[int], str]) -> StepNumbers:
    """One row of the host copy as numbers for its record; `pieces` turns a token into text."""
    num_accepted, num_drafted = int(row["num_accepted"][0]), int(row["num_drafted"][0])
    committed = [int(token) for token in row["committed"][: num_accepted + 1]]
    path = [int(column) for column in row["path"][:num_accepted]] if "path" in row else None
    tree = _tree_trace(row, num_drafted + 1, pieces) if "tokens" in row else None
    return StepNumbers(committed, num_drafted, int(row["tried"][0]), path, tree)


def _tree_trace(row: dict[str, list[float]], width: int, pieces: Callable[[int], str]) -> TreeTrace:
    def ints(name: str) -> list[int]:
        return [int(value) for value in row[name][:width]]

    def maybe(name: str) -> list[float | None]:
        return [value if math.isfinite(value) else None for value in row[name][:width]]

    tokens, best = ints("tokens"), ints("best_tokens")
    return TreeTrace(
        tokens=tokens,
        parents=ints("parents"),
        pieces=[pieces(token) for token in tokens],
        verdicts=ints("verdicts"),
        draft_probs=maybe("draft_probs"),
        target_probs=[None, *maybe("target_probs")[1:]],
        scores=maybe("scores"),
        thresholds=maybe("thresholds"),
        best_tokens=best,
        best_pieces=[pieces(token) for token in best],
        best_probs=row["best_probs"][:width],
        entropies=row["entropies"][:width],
    )
