"""How a tree lies in a pass: the published example, and the trees that are decoded."""

from __future__ import annotations

import pytest

from backend.analysis.layout import layout, paths_from
from backend.errors import HeadwayError
from backend.trees.shapes import parse_tree


def test_the_published_example() -> None:
    found = layout(paths_from("[[0], [1], [0, 0], [0, 1]]"))
    assert found.candidates == (0, 1, 2, 11, 12) and found.positions == (0, 1, 1, 2, 2)
    assert found.leaf_rows == ((0, 1, 3), (0, 1, 4), (0, 2, -1)) and found.parents == (-1, 0, 0, 1, 1)
    assert found.mask == ((1, 0, 0, 0, 0), (1, 1, 0, 0, 0), (1, 0, 1, 0, 0), (1, 1, 0, 1, 0), (1, 1, 0, 0, 1))


@pytest.mark.parametrize("text", ["chain-4", "3x2x1", "4", "[[0], [1], [2], [0, 0], [1, 3], [0, 0, 2]]"])
def test_it_is_the_tree_that_is_decoded(text: str) -> None:
    shape, found = parse_tree(text), layout(paths_from(text))
    assert found.paths == shape.paths and found.parents == shape.parents and found.positions == shape.depths
    for node, line in enumerate(found.mask):
        above, at = {node}, node
        while at > 0:
            at = shape.parents[at]
            above.add(at)
        assert {column for column, seen in enumerate(line) if seen} == above
    assert {row[-1] for row in found.leaf_rows} <= {-1, *range(len(found.mask))}
    assert {max(row) for row in found.leaf_rows} == set(range(len(found.mask))) - set(found.parents)


def test_nothing_is_a_tree_of_one_row() -> None:
    assert layout([]).leaf_rows == ((0,),) and layout([]).mask == ((1,),)
    assert layout([(12,)]).candidates == (0, None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[0, 0]]", "has no parent"),
        ("bush", "Write a tree as"),
        ("[[0], [[1]]]", "Write a tree as"),
        ("[[]]", "Write a tree as"),
        ("[[-1]]", "Write a tree as"),
        ("[" * 9000, "Write a tree as"),
        ("9x9", "90 nodes"),
        ("99x99x99", "nodes"),
    ],
)
def test_what_is_no_tree_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        layout(paths_from(text))
