"""How a draft tree lies in one checking pass: who sees whom, at which position, and which runs of nodes are answers.

The notation is that of Medusa's published code: nodes in the order of (length, lexicographic), node 0 the root, ten
candidates a head in one flat list behind the root's token, and a row of nodes for every leaf, filled up with -1
(arXiv 2401.10774, section 2.1.2, and its reference implementation). Torch-free, for pages; what decodes is trees/.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from backend.errors import HeadwayError

CANDIDATES: Final = 10  #: of a head, in the flat list
MOST_NODES: Final = 64
PADDING: Final = -1
_CHAIN = re.compile(r"chain-(\d{1,2})")
_PRODUCT = re.compile(r"\d{1,2}(?:x\d{1,2})*")

Path = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A tree of N drafted nodes.

    Args:
        paths: of the nodes behind the root, in order.
        parents: [N + 1], -1 for the root. positions: [N + 1], added to the length that is committed.
        mask: [N + 1][N + 1], 1 where the node of the row sees the one of the column.
        candidates: [N + 1], place in the flat list of candidates; None where a rank is beyond a head's ten.
        leaf_rows: for every leaf the nodes from the root to it, filled up with -1.
    """

    paths: tuple[Path, ...]
    parents: tuple[int, ...]
    positions: tuple[int, ...]
    mask: tuple[tuple[int, ...], ...]
    candidates: tuple[int | None, ...]
    leaf_rows: tuple[tuple[int, ...], ...]


def layout(paths: list[Path]) -> Layout:
    """Of these paths, in any order. Raises HeadwayError where one has no parent, or there are too many."""
    ordered = sorted(set(paths), key=lambda path: (len(path), path))
    if len(ordered) > MOST_NODES:
        raise HeadwayError(f"This tree has {len(ordered)} nodes; up to {MOST_NODES} are drawn here.")
    place: dict[Path, int] = {(): 0} | {path: number for number, path in enumerate(ordered, 1)}
    for path in ordered:
        if not path or path[:-1] not in place:
            raise HeadwayError(f"Path {list(path)} has no parent: add {list(path[:-1])} or remove it.")
    every = ((), *ordered)
    lines = [{place[path[:depth]] for depth in range(len(path) + 1)} for path in every]
    inner = {path[:-1] for path in ordered}
    deepest = max((len(path) for path in ordered), default=0)
    leaves = sorted(path for path in every if path not in inner)
    rows = [[place[leaf[:depth]] for depth in range(len(leaf) + 1)] for leaf in leaves]
    return Layout(
        paths=tuple(ordered),
        parents=(PADDING, *(place[path[:-1]] for path in ordered)),
        positions=tuple(len(path) for path in every),
        mask=tuple(tuple(int(column in line) for column in range(len(every))) for line in lines),
        candidates=(0, *(_candidate(path) for path in ordered)),
        leaf_rows=tuple(tuple(row + [PADDING] * (deepest + 1 - len(row))) for row in rows),
    )


def _candidate(path: Path) -> int | None:
    return 1 + CANDIDATES * (len(path) - 1) + path[-1] if path[-1] < CANDIDATES else None


def paths_from(text: str) -> list[Path]:
    """From Medusa's notation, [[0], [1], [0, 0]], or chain-4 or 3x2x1. Raises HeadwayError for anything else."""
    text = text.strip()
    if found := _CHAIN.fullmatch(text):
        return [(0,) * depth for depth in range(1, int(found[1]) + 1)]
    if _PRODUCT.fullmatch(text):
        widths = [int(width) for width in text.split("x")]
        _refuse_many(widths)
        return [path for depth in range(1, len(widths) + 1) for path in itertools.product(*map(range, widths[:depth]))]
    try:
        listed: Any = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    whole = isinstance(listed, list) and all(
        isinstance(path, list) and path and all(type(rank) is int and 0 <= rank < 64 for rank in path)
        for path in listed
    )
    if not whole:
        raise HeadwayError("Write a tree as chain-4, as 3x2x1, or as paths of ranks: [[0], [1], [0, 0]].")
    return [tuple(path) for path in listed]


def _refuse_many(widths: list[int]) -> None:
    nodes, level = 0, 1
    for width in widths:
        level *= width
        nodes += level
    if nodes > MOST_NODES:
        raise HeadwayError(f"This tree has {nodes:,} nodes; up to {MOST_NODES} are drawn here.")
