"""Sampling settings, and the change they make to logits: the numbers of transformers' processors, in their order.

Order (transformers' `_get_logits_processor`): repetition penalty, banned tokens; then, when T > 0, temperature, top-k,
top-p, min-p. A setting that is off costs nothing. Everything works on the last dimension, so a caller may process one
row, the rows of a whole tree, or only the rows that a rule visits. It knows no tree except in `seen_by_node`, and it
draws no tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from backend.bounds import check_bounds
from backend.errors import HeadwayError
from backend.trees import DraftTree


@dataclass(frozen=True)
class SamplingSettings:
    """How the target's next token is chosen. The defaults are plain greedy decoding.

    Args:
        temperature: 0 (greedy: only penalty and ban apply) or 0.001 to 100.
        top_k: keep the k best tokens; 0 is off.
        top_p: keep the fewest best tokens whose probabilities reach top_p, 0 < top_p <= 1; 1 is off.
        min_p: keep tokens at least min_p times as probable as the best, 0 <= min_p <= 1; 0 is off.
        repetition_penalty: 0.01 to 100; divides the positive logits of tokens already in the context and multiplies the
            negative ones; 1 is off.
        banned_tokens: token ids that are never emitted.

    Raises HeadwayError that names the bound and the value.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    banned_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_bounds(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            banned_tokens=min(self.banned_tokens, default=0),
        )
        object.__setattr__(self, "banned_tokens", tuple(sorted(set(self.banned_tokens))))

    @property
    def greedy(self) -> bool:
        """True when the best token is taken and nothing is drawn."""
        return self.temperature == 0

    @property
    def needs_seen(self) -> bool:
        """True when logits depend on which tokens the context holds."""
        return self.repetition_penalty != 1


def process_logits(logits: Tensor, settings: SamplingSettings, seen: Tensor | None = None) -> Tensor:
    """Logits float [..., V] as the settings change them: float32 [..., V], removed tokens at -inf.

    `seen` bool [..., V] marks the tokens of the context that predicts each row; needed for a repetition penalty only.
    With everything off the input itself is returned (as float32): do not write into the result.

    Raises HeadwayError when a banned token is not in the vocabulary.
    """
    logits = logits.float()
    if settings.needs_seen:
        if seen is None:
            raise ValueError("a repetition penalty needs `seen`, the tokens of the context")
        logits = _penalise(logits, settings.repetition_penalty, seen)
    if settings.banned_tokens:
        logits = _ban(logits, settings.banned_tokens)
    if settings.greedy:
        return logits
    if settings.temperature != 1:
        logits = logits / settings.temperature
    if settings.top_k:
        logits = _keep_top_k(logits, settings.top_k)
    if settings.top_p < 1:
        logits = _keep_top_p(logits, settings.top_p)
    if settings.min_p > 0:
        logits = _keep_min_p(logits, settings.min_p)
    return logits


def _penalise(logits: Tensor, penalty: float, seen: Tensor) -> Tensor:
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def _ban(logits: Tensor, tokens: tuple[int, ...]) -> Tensor:
    vocab = logits.shape[-1]
    if tokens[-1] >= vocab:  # they are sorted
        raise HeadwayError(f"Banned token {tokens[-1]} is not in the vocabulary, which ends at {vocab - 1}.")
    return logits.index_fill(-1, _token_ids(tokens, str(logits.device)), -math.inf)


def _keep_top_k(logits: Tensor, k: int) -> Tensor:
    kth = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < kth, -math.inf)


def _keep_top_p(logits: Tensor, top_p: float) -> Tensor:
    # Ascending, as transformers does it: cut the worst tokens while what is cut weighs at most 1 - top_p.
    worst_first, order = logits.sort(dim=-1)
    cut = worst_first.softmax(-1).cumsum(-1) <= 1 - top_p
    cut[..., -1] = False
    return logits.masked_fill(cut.scatter(-1, order, cut), -math.inf)


def _keep_min_p(logits: Tensor, min_p: float) -> Tensor:
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < min_p * probs.amax(-1, keepdim=True), -math.inf)


@lru_cache(maxsize=64)
def _token_ids(tokens: tuple[int, ...], device: str) -> Tensor:
    return torch.tensor(tokens, dtype=torch.int64, device=device)  # one transfer for a whole run


def seen_tokens(tokens: Tensor, lengths: Tensor, vocab: int) -> Tensor:
    """Which tokens each row's context holds: bool [B, V] from tokens int64 [B, C], of which the first lengths[b] are
    real."""
    real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    seen = torch.zeros(tokens.shape[0], vocab, dtype=torch.bool, device=tokens.device)
    return mark_seen(seen, torch.where(real, tokens, -1))


def mark_seen(seen: Tensor, tokens: Tensor) -> Tensor:
    """Add newly committed tokens int64 [B, K] (padded with -1) to seen bool [B, V], in place; returns `seen`."""
    # Padding repeats the row's largest token, so that writes to one place never disagree; an all-padding row rewrites
    # place 0.
    place = torch.where(tokens < 0, tokens.amax(1, keepdim=True), tokens).clamp(min=0)
    present = tokens.amax(1, keepdim=True) >= 0
    return seen.scatter_(1, place, seen.gather(1, place) | present)


def seen_by_node(seen: Tensor, tree: DraftTree) -> Tensor:
    """What the logits of each column may call seen: bool [B, M, V], the context `seen` [B, V] and the column's own
    path.

    The logits of column i predict the token after it, so the path root..i counts, i included.
    """
    tokens = tree.tokens[:, None, :].expand(-1, tree.width, -1)  # [B, M, M]: column j's token, for every column i
    own = tree.tokens[:, :, None]
    on_path = torch.where(tree.ancestors, tokens, own)  # what is not on the path repeats the column's own token
    return seen[:, None].repeat(1, tree.width, 1).scatter_(2, on_path, True)
