"""The likeliest tree of independent positions: what a heap finds, whatever the batch, and never another text."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from backend.drafters.best_first import grow_best_first, slow_best_paths
from backend.drafters.growing import DynamicShape
from backend.errors import HeadwayError
from backend.trees import DraftTree, chain, product
from tests.acceptance.test_no_sync import NoSync
from tests.support.drafters import random_medusa
from tests.support.lossless import LAWS, check_greedy, sampling_p_value, small_target
from tests.support.targets import target_of

VOCABULARY = 40


def random_scores(depth: int, rows: int, seed: int, sharpness: float) -> Tensor:
    return sharpness * torch.randn(depth, rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


def paths_of(tree: DraftTree, row: int) -> list[tuple[int, ...]]:
    """The tokens from below the root to every drafted node."""
    paths: list[tuple[int, ...]] = [()]
    for column in range(1, int(tree.num_nodes[row]) + 1):
        parent = int(tree.parents[row, column])
        assert parent < column
        paths.append((*paths[parent], int(tree.tokens[row, column])))
    return paths[1:]


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("depth", "top_k", "nodes"), [(4, 10, 31), (3, 2, 10), (5, 6, 60), (1, 7, 7), (6, 1, 6)])
def test_it_holds_the_paths_that_a_heap_finds(depth: int, top_k: int, nodes: int, sharpness: float) -> None:
    scores = random_scores(depth, 3, depth, sharpness)
    shape = DynamicShape(depth, top_k, nodes)
    draft = grow_best_first(torch.tensor([1, 2, 3]), scores, shape, None)
    assert draft.distribution is None, "its children are chosen"
    own, best = torch.log_softmax(scores, -1).topk(top_k, -1)
    for row in range(3):
        slow = slow_best_paths(own[:, row].tolist(), nodes)
        expected = {tuple(int(best[d, row, r]) for d, r in enumerate(path)) for path in slow}
        found = paths_of(draft.tree, row)
        assert len(found) == len(set(found)) == nodes
        assert set(found) == expected
        for column, path in enumerate(found, start=1):
            chance = torch.softmax(scores[len(path) - 1, row], -1)[path[-1]]
            assert draft.draft_prob[row, column].item() == pytest.approx(chance.item(), rel=1e-4)


def test_more_nodes_than_there_are_paths_give_all_paths() -> None:
    shape = DynamicShape(3, 3, 21)
    tree = grow_best_first(torch.tensor([1]), random_scores(2, 1, 0, 1.0), shape, None).tree  # a row about to end
    assert tree.max_depth == 2 and sorted(map(len, paths_of(tree, 0))) == [1] * 3 + [2] * 9


def test_draft_tokens_become_target_tokens() -> None:
    scores, shape = random_scores(3, 2, 5, 1.0), DynamicShape(3, 4, 9)
    roots = torch.tensor([1, 2])
    plain = grow_best_first(roots, scores, shape, None).tree
    mapped = grow_best_first(roots, scores, shape, torch.arange(VOCABULARY) * 3).tree
    assert torch.equal(mapped.tokens[:, 1:], plain.tokens[:, 1:] * 3) and torch.equal(mapped.tokens[:, 0], roots)


def test_growing_never_asks_the_device() -> None:
    scores, roots = random_scores(4, 2, 1, 1.0), torch.tensor([1, 2])
    grow_best_first(roots, scores, DynamicShape(4, 8, 30), None)  # which pairs to look at is worked out once
    with NoSync():
        grow_best_first(roots, scores, DynamicShape(4, 8, 30), None)


def test_medusa_fills_it_and_refuses_what_its_heads_can_not() -> None:
    target = target_of("llama")
    drafter = random_medusa(target, chain(4)).with_dynamic(DynamicShape(4, 8, 24))
    assert drafter.shape.num_nodes == 24 and drafter.shape.max_depth == 4
    assert not drafter.with_sampled(True).sampled, "which nodes stay depends on their own chance"
    assert drafter.with_shape(product([2, 2])).dynamic is None
    assert check_greedy(target, drafter) > 0
    with pytest.raises(HeadwayError, match=r"5 deep.*4 heads"):
        drafter.with_dynamic(DynamicShape(5, 8, 24))


@pytest.mark.slow_stat
@pytest.mark.parametrize("law", LAWS)
def test_samples_with_it_follow_the_targets_law(law: str) -> None:
    """Three p-values: right rules fail one of them with probability 0.3 %."""
    drafter = random_medusa(small_target(), chain(4)).with_dynamic(DynamicShape(3, 6, 20))
    assert sampling_p_value(drafter, LAWS[law]) > 0.001
