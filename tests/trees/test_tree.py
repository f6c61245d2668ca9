"""Draft trees against a slow, obvious twin: plain lists and one loop a node, over random ragged trees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.trees import DraftTree, TreeShape, chain, product


@dataclass(frozen=True)
class SlowTree:
    """One row's parents, root and real nodes only."""

    parents: list[int]

    def path(self, node: int) -> list[int]:
        return [] if node == 0 else [*self.path(self.parents[node]), node]

    def depth(self, node: int) -> int:
        return len(self.path(node))

    def sees(self, node: int, other: int) -> bool:
        return other in (0, *self.path(node))

    def sibling_rank(self, node: int) -> int:
        return sum(self.parents[left] == self.parents[node] for left in range(1, node)) if node else 0


@st.composite
def ragged(draw: st.DrawFn) -> tuple[list[SlowTree], DraftTree]:
    """1 to 4 random trees of 0 to 12 drafted nodes, padded to the widest or one column more."""
    rows = [
        [-1, *(draw(st.integers(0, node)) for node in range(draw(st.integers(0, 12))))]
        for _ in range(draw(st.integers(1, 4)))
    ]
    slow = [SlowTree(parents) for parents in rows]
    width = max(map(len, rows)) + draw(st.integers(0, 1))
    depth = max(tree.depth(node) for tree in slow for node in range(len(tree.parents)))
    return slow, DraftTree(
        tokens=torch.tensor([[100 * row + column for column in range(width)] for row in range(len(rows))]),
        parents=torch.tensor([parents + [-1] * (width - len(parents)) for parents in rows]),
        num_nodes=torch.tensor([len(parents) - 1 for parents in rows]),
        max_depth=min(depth + draw(st.integers(0, 2)), width - 1),  # a bound, not necessarily reached
    )


@settings(deadline=None, max_examples=100)
@given(ragged())
def test_everything_derived_equals_the_slow_twin(case: tuple[list[SlowTree], DraftTree]) -> None:
    slow, tree = case
    real, depths, ranks = tree.real.tolist(), tree.depths.tolist(), tree.sibling_rank.tolist()
    up, sees, child = tree.parent_columns().tolist(), tree.ancestors.tolist(), tree.is_child_of.tolist()
    for row, twin in enumerate(slow):
        for node in range(tree.width):
            exists = node < len(twin.parents)
            assert real[row][node] == exists
            assert depths[row][node] == (twin.depth(node) if exists else 0)
            assert ranks[row][node] == (twin.sibling_rank(node) if exists else 0)
            assert up[row][node] == (max(0, twin.parents[node]) if exists else 0)
            for other in range(tree.width):
                both = exists and other < len(twin.parents)
                assert sees[row][node][other] == (twin.sees(node, other) if both else node == other)
                assert child[row][node][other] == (both and node > 0 and twin.parents[node] == other)


@settings(deadline=None, max_examples=50)
@given(ragged(), st.randoms())
def test_paths_equal_the_slow_twin(case: tuple[list[SlowTree], DraftTree], random) -> None:
    slow, tree = case
    nodes = [random.randrange(len(twin.parents)) for twin in slow]
    path, length = tree.path_to(torch.tensor(nodes))
    assert path.shape == (len(slow), tree.max_depth)
    for row, (twin, node) in enumerate(zip(slow, nodes, strict=True)):
        expected = twin.path(node)
        assert length[row] == len(expected)
        assert path[row].tolist() == expected + [-1] * (tree.max_depth - len(expected))


def test_a_shared_shape_equals_the_same_parents_in_every_row() -> None:
    shape = product([3, 2, 1])
    tokens = torch.arange(2 * (shape.num_nodes + 1)).view(2, -1)
    shared = DraftTree.from_shape(shape, tokens)
    own = DraftTree(tokens, shared.parents.repeat(2, 1), shared.num_nodes, shared.max_depth)
    assert shared.parents.shape[0] == 1 and shared.num_nodes.tolist() == [15, 15]
    for name in ("ancestors", "depths", "is_child_of", "sibling_rank"):
        assert torch.equal(getattr(shared, name).expand_as(getattr(own, name)), getattr(own, name)), name
    assert torch.equal(shared.parent_columns(), own.parent_columns())
    last = torch.tensor([15, 0])
    assert all(torch.equal(a, b) for a, b in zip(shared.path_to(last), own.path_to(last), strict=True))


def test_the_root_alone() -> None:
    tree = DraftTree.root_only(torch.tensor([7, 8]))
    assert tree.width == 1 and tree.batch == 2 and tree.max_depth == 0
    assert tree.ancestors.tolist() == [[[True]]] and tree.real.all()
    path, length = tree.path_to(torch.tensor([0, 0]))
    assert path.shape == (2, 0) and length.tolist() == [0, 0]


def test_deep_chains_know_all_their_ancestors() -> None:
    for depth in (1, 2, 3, 4, 5, 8, 31, 32, 33):  # around powers of two: pointer doubling must not stop early
        tree = DraftTree.from_shape(chain(depth), torch.zeros(1, depth + 1, dtype=torch.int64))
        assert torch.equal(tree.ancestors[0], torch.ones(depth + 1, depth + 1).tril().bool())


def test_medusas_own_example() -> None:
    """Choices [0] [1] [0,0] [0,1] of Medusa's repository: its order of nodes, positions and rows of candidates."""
    shape = TreeShape(((0, 1), (1,), (0,), (0, 0)))
    assert shape.to_json() == [[0], [1], [0, 0], [0, 1]]
    assert shape.depths == (0, 1, 1, 2, 2)
    top_k = 10  # candidates of a head in the flat list [root, head 0's, head 1's]
    flat = [0] + [1 + top_k * (d - 1) + r for d, r in zip(shape.depths[1:], shape.ranks[1:], strict=True)]
    assert flat == [0, 1, 2, 11, 12]
    tree = DraftTree.from_shape(shape, torch.zeros(1, 5, dtype=torch.int64))
    leaves = [node for node in range(5) if not tree.is_child_of[0, :, node].any()]
    rows = [[0, *tree.path_to(torch.tensor([leaf]))[0][0].tolist()] for leaf in leaves]
    assert sorted(rows) == [[0, 1, 3], [0, 1, 4], [0, 2, -1]]
    assert tree.ancestors[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 0, 1],
    ]


def test_padding_changes_no_real_column() -> None:
    tree = DraftTree.from_shape(product([2, 1]), torch.arange(10).view(2, 5))
    wide = tree.padded(9)
    assert wide.width == 9 and tree.padded(3) is tree
    assert torch.equal(wide.tokens[:, :5], tree.tokens) and torch.equal(wide.real.sum(1), torch.tensor([5, 5]))
    assert torch.equal(wide.ancestors[:, :5, :5], tree.ancestors)
    assert not wide.ancestors[:, :5, 5:].any() and not wide.ancestors[:, 5:, :5].any()
