"""Trees of growing size from held-out ranks, timed by whole steps; the quotient decides."""

from __future__ import annotations

import torch

from backend.trees import chain
from backend.trees.search import acceptance_length_from_ranks
from backend.tuning.fastest_tree import TreeEstimate, candidate_trees, estimate_trees, fastest
from tests.support.drafters import random_medusa
from tests.support.targets import target_of


def test_candidates_grow_and_never_expect_less() -> None:
    ranks = torch.randint(0, 6, (500, 3), generator=torch.Generator().manual_seed(0))
    shapes = candidate_trees(ranks, (1, 3, 6, 12))
    assert [shape.num_nodes for shape in shapes] == [1, 3, 6, 12]
    lengths = [acceptance_length_from_ranks(shape, ranks) for shape in shapes]
    assert lengths == sorted(lengths) and lengths[0] > 1


def test_every_shape_is_timed_and_the_quotient_decides() -> None:
    target = target_of("llama")
    drafter = random_medusa(target, chain(1))
    ranks = torch.zeros(50, 2, dtype=torch.int64)
    shapes = [chain(1), chain(2)]
    found = estimate_trees(target, drafter, ranks, list(range(20)), shapes)
    assert [one.shape for one in found] == shapes
    assert [one.acceptance_length for one in found] == [2.0, 3.0]
    assert all(one.step_ms > 0 for one in found)
    slow, quick = TreeEstimate(chain(2), 3.0, 40.0), TreeEstimate(chain(1), 2.0, 20.0)
    assert fastest([slow, quick]) is quick
    assert fastest([TreeEstimate(chain(2), 2.0, 20.0), quick]) is quick
