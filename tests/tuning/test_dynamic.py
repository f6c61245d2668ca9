"""Dynamic trees replayed from a calibration are those that the drafter grows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from backend.analysis.calibration import LEAF, MISS, Walk, replay_lengths
from backend.drafters.growing import grow_dynamic
from backend.errors import HeadwayError
from backend.trees import DynamicShape, TreeShape, product
from backend.trees.dynamic import DYNAMIC_PRESETS
from backend.tuning.calibration import Calibration
from backend.tuning.dynamic import Drafted, Independent, best_dynamic, growth_of, possible
from backend.tuning.notation import three_numbers
from backend.tuning.tuned import foretold
from tests.tuning.made_up import cost

WIDTH, LEVELS = 3, 3
TREE = product([WIDTH] * LEVELS)
PLACE = {path: number for number, path in enumerate(TREE.paths)}


def made(positions: int, seed: int = 0) -> Walk:
    """A walk whose confidences fall along the ranks of every node."""
    rng = np.random.default_rng(seed)
    kept = np.zeros((positions, TREE.num_nodes), dtype=np.uint8)
    for path, place in PLACE.items():
        if path[-1] == 0:
            kept[:, place : place + WIDTH] = np.sort(rng.integers(29, 51, (positions, WIDTH)), axis=1)
    ranks = rng.choice([0, 0, 0, 1, 2, MISS], (positions, LEVELS)).astype(np.int8)
    for row in ranks:
        missed = np.flatnonzero(row == MISS)
        if len(missed):
            row[missed[0] :] = MISS
    return Walk("p", "", 0.0, 9, ranks, kept)


def logs(positions: int, seed: int = 1) -> np.ndarray:
    """[T, N]: log-probabilities between 0.12 and 0.3 without ties, falling along the ranks of every node."""
    rng = np.random.default_rng(seed)
    found = np.zeros((positions, TREE.num_nodes))
    for path, place in PLACE.items():
        if path[-1] == 0:
            found[:, place : place + WIDTH] = -np.sort(rng.uniform(1.2, 2.1, (positions, WIDTH)), axis=1)
    return found


def along(own: np.ndarray) -> np.ndarray:
    """Sums along every path."""
    total = own.copy()
    for path, place in PLACE.items():
        if len(path) > 1:
            total[:, place] += total[:, PLACE[path[:-1]]]
    return total


REST = 9  #: further tokens, less likely than the three that are looked at


def grown(own: np.ndarray, shape: DynamicShape) -> set[tuple[int, ...]]:
    """The paths of the tree that the drafter itself grows with these log-probabilities [N]. Tokens are ranks."""
    extended: list[tuple[int, ...]] = [()]

    def scores(path: tuple[int, ...]) -> list[float]:
        first = [float(own[PLACE[(*path, rank)]]) for rank in range(WIDTH)] if (*path, 0) in PLACE else [-1.5] * WIDTH
        return [*first, *([float(np.log((1 - np.exp(first).sum()) / REST))] * REST)]

    def extend(tokens: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        pairs = zip(tokens[0].tolist(), parents[0].tolist(), strict=True)
        paths = [(*extended[parent], token) for token, parent in pairs]
        extended.extend(paths)
        return torch.tensor([[scores(path) for path in paths]])

    tree = grow_dynamic(torch.tensor([0]), torch.tensor([[scores(())]]), extend, shape, None).tree
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[0, 1:].tolist(), tree.parents[0, 1:].tolist(), strict=True):
        paths.append((*paths[parent], token))
    return set(paths[1:])


@pytest.mark.parametrize("shape", [DynamicShape(3, 2, 6), DynamicShape(2, 3, 5), DynamicShape(3, 3, 9)])
def test_a_replayed_dynamic_tree_is_the_one_that_grows(shape: DynamicShape) -> None:
    own = logs(25)
    right = np.ones((25, TREE.num_nodes), dtype=bool)  # so that what is accepted is how many nodes were kept
    kept = Drafted(TREE, right, along(own))._kept(shape)
    for position in range(25):
        paths = grown(own[position], shape)
        assert {path for path, place in PLACE.items() if kept[position, place]} == paths, position


def test_the_fastest_of_a_grid() -> None:
    walk = made(60)
    calibration = Calibration(TREE, WIDTH, False, (walk,))
    found = best_dynamic(calibration, cost(), 24, 1, 128)
    assert found.shape in possible(LEVELS, 24) and found.tokens_per_s > 0
    assert found.to_dict()["sglang"]["speculative_num_draft_tokens"] == found.shape.num_nodes + 1
    known = Drafted.of(walk, TREE)
    assert known.accepted(DynamicShape(3, 3, 21)).sum() >= known.accepted(DynamicShape(3, 3, 4)).sum()
    with pytest.raises(HeadwayError, match="allow more"):
        best_dynamic(calibration, cost(), 1, 1, 128)


def test_what_is_expected_was_not_chosen_by_the_same_answers() -> None:
    walks = tuple(made(40, seed) for seed in range(9))
    calibration = Calibration(TREE, WIDTH, False, walks, {"drafter": {"grows": True}})
    found = best_dynamic(calibration, cost(), 24, 1, 128)
    shapes, known = possible(LEVELS, 24), [Drafted.of(walk, TREE) for walk in walks]
    steps = {shape: cost().step(growth_of(shape, False), 1, 128).ms for shape in shapes}
    for part in range(4):
        others = [one for number, one in enumerate(known) if number % 4 != part]
        speed = {s: replay_lengths([one.accepted(s) for one in others]).acceptance_length / steps[s] for s in shapes}
        best = max(shapes, key=lambda shape: speed[shape])
        for number in range(part, 9, 4):
            alone = replay_lengths([known[number].accepted(best)])
            assert (found.replay.tokens[number], found.replay.steps[number]) == (alone.tokens[0], alone.steps[0])
    told = foretold(calibration, found.shape, cost(), 1, 128)
    assert told["tree"] == found.shape.to_json() and told["step_ms"] == steps[found.shape]
    assert foretold(calibration, found.shape, None, 1, 128)["expected_tokens_per_s"] is None
    assert foretold(calibration, DYNAMIC_PRESETS["eagle2"], cost(), 1, 128)["levels"] == LEVELS


def test_independent_candidates_grow_the_likeliest_paths_of_all() -> None:
    comb = TreeShape(tuple((*(0,) * d, rank) for d in range(3) for rank in range(4)))
    rng = np.random.default_rng(4)
    kept = np.sort(rng.integers(5, 120, (30, 3, 4)), axis=2).reshape(30, 12).astype(np.uint8)
    ranks = rng.choice([0, 0, 0, 1, 2, 3, MISS], (30, 3)).astype(np.int8)
    shape = DynamicShape(3, 4, 7)
    found = Independent.of(Walk("p", "", 0.0, 9, ranks, kept), comb).accepted(shape)
    for position in range(30):
        nats = kept[position].reshape(3, 4).astype(float)
        paths = [path for d in (1, 2, 3) for path in itertools.product(range(4), repeat=d)]
        cost_of = {path: sum(nats[d, rank] for d, rank in enumerate(path)) + 1e-4 * len(path) for path in paths}
        bar = sorted(cost_of.values())[shape.num_nodes - 1]
        sure = {path for path in paths if cost_of[path] < bar - 0.5}
        possible_ = {path for path in paths if cost_of[path] < bar + 0.5}  # equals at the edge may be taken or not
        lengths = [max((d for d in (1, 2, 3) if tuple(ranks[position, :d].tolist()) in tree), default=0)
                   for tree in (sure, possible_)]  # fmt: skip
        assert lengths[0] <= found[position] <= lengths[1]
    assert found.sum() > 0


def test_a_leaf_and_a_miss_accept_nothing() -> None:
    ranks = np.array([[MISS, MISS, MISS], [LEAF, LEAF, LEAF], [0, LEAF, LEAF]], dtype=np.int8)
    walk = Walk("p", "", 0.0, 9, ranks, np.full((3, TREE.num_nodes), 24, dtype=np.uint8))
    assert Drafted.of(walk, TREE).accepted(DynamicShape(3, 3, 20)).tolist() == [0, 0, 1]


def test_eagles_default_has_eagles_own_numbers() -> None:
    shape = DYNAMIC_PRESETS["eagle2"]
    told = three_numbers(shape.depth, shape.top_k, shape.num_nodes)["eagle"]
    assert told == {"total_token": 60, "depth": 7, "top_k": 10}
