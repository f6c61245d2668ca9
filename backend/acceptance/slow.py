"""Slow, obvious twins of the acceptance rules: one tree, plain Python lists, from the papers' text.

The tests hold the fast rules against these; nothing else calls them. Probabilities come in processed, chance comes in
as numbers. They know no tensors, no batch and no padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Probs = Sequence[float]


@dataclass(frozen=True)
class SlowTree:
    """tokens[i] and parents[i] of every column i; column 0 is the root, its parent -1."""

    tokens: Sequence[int]
    parents: Sequence[int]

    def children(self, node: int) -> list[int]:
        return [column for column, parent in enumerate(self.parents) if parent == node and column > 0]

    def path(self, node: int) -> list[int]:
        """Drafted columns from the root down to `node`, the root excluded."""
        return [] if node == 0 else [*self.path(self.parents[node]), node]


@dataclass(frozen=True)
class SlowOutcome:
    """The accepted columns in order, and the token emitted after them."""

    path: list[int]
    next_token: int


def slow_draw(probs: Probs, uniform: float) -> int:
    """The first token at which the running sum exceeds uniform * total."""
    target, running, last = uniform * sum(probs), 0.0, 0
    for token, weight in enumerate(probs):
        running += weight
        if weight > 0:
            last = token
            if running > target:
                break
    return last


def slow_greedy(tree: SlowTree, best: Sequence[int]) -> SlowOutcome:
    """best[i] is the target's best token after column i."""
    node = 0
    while True:
        match = [child for child in tree.children(node) if tree.tokens[child] == best[node]]
        if not match:
            return SlowOutcome(tree.path(node), best[node])
        node = match[0]


def slow_chosen(tree: SlowTree, p: Sequence[Probs], chance: Iterator[float]) -> SlowOutcome:
    """Chosen children, one by one: accept c with p(c); else set p(c) = 0, renormalise, try the next; p[i] is after
    column i."""
    node = 0
    while True:
        left, accepted = list(p[node]), False
        for child in tree.children(node):
            token = tree.tokens[child]
            if next(chance) < left[token]:
                node, accepted = child, True
                break
            left[token] = 0.0
            left = _normalised(left)
        if not accepted:
            return SlowOutcome(tree.path(node), slow_draw(left, next(chance)))


def slow_sampled(
    tree: SlowTree, p: Sequence[Probs], q: Sequence[Probs], trial: Sequence[Sequence[float]], final: float
) -> SlowOutcome:
    """Children sampled without replacement from q[i]; trial[d][r] decides on sibling r at depth d + 1, final draws the
    end."""
    node = 0
    while True:
        target, draft, accepted = list(p[node]), list(q[node]), False
        for rank, child in enumerate(tree.children(node)):
            token = tree.tokens[child]
            draft = _normalised(draft)
            if trial[len(tree.path(node))][rank] < target[token] / draft[token]:
                node, accepted = child, True
                break
            target = _normalised([max(a - b, 0.0) for a, b in zip(target, draft, strict=True)])
            draft[token] = 0.0
        if not accepted:
            return SlowOutcome(tree.path(node), slow_draw(target, final))


def slow_typical(tree: SlowTree, p: Sequence[Probs], epsilon: float, delta: float, final: float) -> SlowOutcome:
    """Medusa's posterior evaluation: the accepted prefix of every root-to-leaf path; the longest, then the likeliest,
    wins."""
    best: tuple[int, float, list[int]] = (0, 0.0, [])
    for leaf in range(len(tree.tokens)):
        prefix: list[int] = []
        log_p = 0.0
        for node in tree.path(leaf):
            parent = p[tree.parents[node]]
            entropy = -sum(x * math.log(x) for x in parent if x > 0)
            prob = parent[tree.tokens[node]]
            if not prob > min(epsilon, delta * math.exp(-entropy)):
                break
            prefix.append(node)
            log_p += math.log(prob)
        if prefix and (not best[2] or (len(prefix), log_p) > best[:2]):
            best = (len(prefix), log_p, prefix)
    path = best[2]
    return SlowOutcome(path, slow_draw(p[path[-1] if path else 0], final))


def _normalised(weights: Probs) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total > 0 else list(weights)
