"""Static shapes: what a person may type, what is refused and how, and what follows from a set of paths."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import HeadwayError
from backend.trees import TreeShape, chain, product
from backend.trees.shapes import MAX_NODES, MAX_RANK, parse_tree


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("none", []),
        ("chain-1", [[0]]),
        ("  chain-3 ", [[0], [0, 0], [0, 0, 0]]),
        ("chain-0", []),
        ("2x1", [[0], [1], [0, 0], [1, 0]]),
        ("3", [[0], [1], [2]]),
        ("[[0],[1],[0,0]]", [[0], [1], [0, 0]]),
        ("[[0, 0], [0], [0]]", [[0], [0, 0]]),  # any order, twice counts once
        ("[]", []),
        ("[[5]]", [[5]]),  # a gap among the ranks is a choice
    ],
)
def test_what_may_be_typed(text: str, paths: list[list[int]]) -> None:
    shape = parse_tree(text)
    assert shape.to_json() == paths
    assert parse_tree(json.dumps(shape.to_json())) == shape


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Unknown tree ''"),
        ("oak", "Unknown tree 'oak'"),
        ("chain-", "Unknown tree"),
        ("chain--1", "Unknown tree"),
        ("chain-²", "Unknown tree"),
        ("3x", "Unknown tree"),
        ("²x2", "Unknown tree"),
        ("٣x2", "Unknown tree"),
        ("3x0", "0 wide"),
        ("65", "65 wide"),
        ("64x64", "more than 512"),
        ("chain-513", "513"),
        ("chain-999999999", "999999999"),
        ("chain-" + "9" * 5000, "Unknown tree"),
        ("9" * 5000, "Unknown tree"),
        ("x".join(["1"] * 600), "more than 512"),
        ("[[0],[0,1,0]]", r"\[0, 1, 0\] has no parent: add \[0, 1\]"),
        ("[[0],[]]", "empty"),
        ("[[64]]", "outside 0 to 63"),
        ("[[-1]]", "outside 0 to 63"),
        ("[[0],", "not valid JSON"),
        ("[0]", "list of paths"),
        ("[[0.5]]", "list of paths"),
        ("[[true]]", "list of paths"),
        ('[["0"]]', "list of paths"),
        ("[[" + "9" * 5000 + "]]", "list of paths"),
        ("[" * 100_000, "list of paths"),
        (json.dumps([[rank, other] for rank in range(30) for other in range(30)]), "900 nodes"),
    ],
)
def test_what_is_refused_with_one_sentence(text: str, says: str) -> None:
    with pytest.raises(HeadwayError, match=says) as caught:
        parse_tree(text)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 200


def test_medusas_63_node_tree() -> None:
    shape = parse_tree("medusa-63")
    assert (shape.num_nodes, shape.max_depth, shape.widths) == (63, 4, (10, 10, 10, 2))
    assert [sum(depth == d for depth in shape.depths) for d in range(5)] == [1, 10, 28, 23, 2]


def test_eagles_first_tree() -> None:
    shape = parse_tree("eagle-25")
    assert (shape.num_nodes, shape.max_depth, shape.widths) == (25, 5, (4, 3, 3, 3, 2))
    assert [sum(depth == d for depth in shape.depths) for d in range(6)] == [1, 4, 8, 8, 3, 2]


def test_chain_and_product() -> None:
    assert chain(0) == TreeShape(()) and chain(0).max_depth == 0 and chain(0).widths == ()
    assert chain(4) == product([1, 1, 1, 1])
    assert product([]) == TreeShape(())
    wide = product([3, 2, 2])
    assert (wide.num_nodes, wide.max_depth, wide.widths) == (3 + 6 + 12, 3, (3, 2, 2))
    assert chain(MAX_NODES).num_nodes == MAX_NODES
    assert TreeShape(((MAX_RANK - 1,),)).widths == (MAX_RANK,)
    with pytest.raises(HeadwayError, match="-1"):
        chain(-1)


@given(st.integers(0, 10**9))
def test_derived_values_follow_from_the_paths(seed: int) -> None:
    rng = random.Random(seed)
    paths: list[tuple[int, ...]] = [()]
    for _ in range(rng.randrange(20)):
        paths.append((*rng.choice(paths), rng.randrange(5)))
    shape = TreeShape(tuple(paths[1:]))
    columns = [(), *shape.paths]
    assert len(set(columns)) == shape.num_nodes + 1
    assert columns == sorted(columns, key=lambda path: (len(path), path))
    for column, path in enumerate(columns):
        assert shape.depths[column] == len(path)
        if path:
            assert shape.ranks[column] == path[-1]
            assert columns[shape.parents[column]] == path[:-1] and shape.parents[column] < column
    assert shape.parents[0] == -1
    assert shape.widths == tuple(
        1 + max(p[-1] for p in shape.paths if len(p) == d) for d in range(1, shape.max_depth + 1)
    )
    for depth in range(shape.max_depth + 2):
        assert shape.cut(depth).paths == tuple(p for p in shape.paths if len(p) <= depth)


def test_max_children_counts_the_widest_node_of_each_depth():
    assert TreeShape(((0,), (3,), (0, 0), (3, 1), (3, 2), (3, 2, 0))).max_children == (2, 2, 1)
    assert TreeShape(()).max_children == ()
