"""Tree search against worked examples and against trying every tree."""

import itertools
import random

import pytest
import torch

from backend.trees import TreeShape, chain, product
from backend.trees.search import (
    HitTable,
    acceptance_length_from_ranks,
    best_tree,
    best_tree_from_ranks,
    curve_of_values,
    expected_acceptance_length,
    tree_curve,
)

HITS = [[0.6, 0.2, 0.1], [0.4, 0.2, 0.05], [0.3, 0.1, 0.1]]


def test_expected_length_of_a_chain_is_the_sum_of_its_products() -> None:
    assert expected_acceptance_length(chain(3), HITS) == pytest.approx(1 + 0.6 + 0.24 + 0.072)
    assert expected_acceptance_length(TreeShape(()), HITS) == 1.0


def test_expected_length_of_a_product_factorises() -> None:
    first, second, third = 0.9, 0.6, 0.3
    assert expected_acceptance_length(product([3, 2, 1]), HITS) == pytest.approx(
        1 + first + first * second + first * second * third
    )


def test_ranks_and_depths_never_measured_are_worth_nothing() -> None:
    assert expected_acceptance_length(TreeShape(((0,), (5,), (5, 0))), HITS) == pytest.approx(1.6)
    assert expected_acceptance_length(chain(5), HITS) == expected_acceptance_length(chain(3), HITS)


def all_trees(num_nodes: int, paths: list[tuple[int, ...]]) -> list[TreeShape]:
    found = []
    for some in itertools.combinations(paths, num_nodes):
        if all(len(path) == 1 or path[:-1] in some for path in some):
            found.append(TreeShape(some))
    return found


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_greedy_growth_finds_the_best_of_all_trees(num_nodes: int) -> None:
    rng = random.Random(num_nodes)
    paths = [path for depth in (1, 2, 3) for path in itertools.product(range(2), repeat=depth)]
    for _ in range(5):
        hits = [[rng.random() / 2, rng.random() / 2] for _ in range(3)]
        best = max(expected_acceptance_length(tree, hits) for tree in all_trees(num_nodes, paths))
        assert expected_acceptance_length(best_tree(hits, num_nodes), hits) == pytest.approx(best)


def test_limits_are_kept_and_useless_nodes_left_out() -> None:
    assert best_tree(HITS, 100, max_depth=1).paths == ((0,), (1,), (2,))
    assert best_tree([[0.5, 0.0], [0.0]], 10).paths == ((0,),)
    assert best_tree(HITS, 0).num_nodes == 0


def test_joint_ranks_see_what_independence_misses() -> None:
    # Depth 2 is right exactly where depth 1 is: independence would rate the path (0, 0) at a quarter.
    ranks = torch.tensor([[0, 0], [0, 0], [9, 9], [9, 9]])
    assert acceptance_length_from_ranks(chain(2), ranks, max_rank=5) == pytest.approx(2.0)
    assert best_tree_from_ranks(ranks, 2, max_rank=5).paths == ((0,), (0, 0))


def test_joint_length_equals_walking_the_tree_at_each_position() -> None:
    ranks = torch.randint(0, 4, (300, 3), generator=torch.Generator().manual_seed(1))
    shape = TreeShape(((0,), (1,), (2,), (0, 0), (0, 2), (1, 1), (0, 2, 0)))
    present = set(shape.paths)
    accepted = 0
    for row in ranks.tolist():
        accepted += max(d for d in range(4) if d == 0 or tuple(row[:d]) in present)
    assert acceptance_length_from_ranks(shape, ranks) == pytest.approx(1 + accepted / 300)


def test_positions_without_a_label_are_left_out() -> None:
    ranks = torch.tensor([[0, 0], [0, -100]])
    assert acceptance_length_from_ranks(chain(2), ranks) == pytest.approx(3.0)


ALL_PATHS = [path for depth in (1, 2, 3) for path in itertools.product(range(2), repeat=depth)]


def test_one_growth_gives_the_best_tree_of_every_size_for_rates_in_any_order() -> None:
    rng = random.Random(0)
    for _ in range(4):
        hits = [sorted((rng.random() / 2, rng.random() / 2)) for _ in range(3)]  # the second rank is the better one
        curve = tree_curve(HitTable(hits), 5)
        for nodes in range(1, 6):
            best = max(expected_acceptance_length(tree, hits) for tree in all_trees(nodes, ALL_PATHS))
            assert curve.lengths[nodes] == pytest.approx(best)
            assert expected_acceptance_length(curve.shape(nodes), hits) == pytest.approx(best)


def test_conditional_rates_win_over_independent_ones() -> None:
    rng = random.Random(1)
    for _ in range(4):
        hits = [[rng.random() / 2, rng.random() / 2] for _ in range(3)]
        inner = [(), *(path for path in ALL_PATHS if len(path) < 3)]
        table = HitTable(hits, {path: [rng.random() / 2, rng.random() / 2] for path in inner if rng.random() < 0.7})
        curve = tree_curve(table, 5)
        for nodes in range(1, 6):
            best = max(1 + sum(map(table.value, tree.paths)) for tree in all_trees(nodes, ALL_PATHS))
            assert curve.lengths[nodes] == pytest.approx(best)
    assert HitTable([[0.5]], {(0, 0): [0.25]}).value((0, 0, 0)) == 0.0  # nothing is known of depth 2 itself
    assert HitTable([[0.5], [0.5]], {(0, 0): [0.25]}).value((0, 0, 0)) == pytest.approx(0.0625)


def test_a_curve_is_as_long_as_there_are_nodes_worth_having() -> None:
    curve = tree_curve(HitTable([[0.8, 0.1], [0.5]]), 64)
    assert curve.order == ((0,), (0, 0), (1,), (1, 0)) and curve.lengths == pytest.approx((1, 1.8, 2.2, 2.3, 2.35))
    assert curve_of_values({(0,): 0.5, (0, 1): 0.25}, 9, 2, 3).order == ((0,), (0, 1))
    assert tree_curve(HitTable([[0.0]]), 3).num_nodes == 0
