"""Static tree shapes in Medusa's notation: which ranks are drafted at which depth, before any token is known.

A shape is a set of paths; the path (0, 2) is "the best candidate of depth 1, then the third best of depth 2". Nodes are
ordered by (length, lexicographic), node 0 is the root (the empty path), and N counts the drafted nodes only: Medusa's
papers and EAGLE's `total_token` count N + 1. The shape does not know the tokens, nor how likely a rank is to be right.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from backend.errors import HeadwayError
from backend.trees.presets import PRESETS

Path = tuple[int, ...]

MAX_NODES = 512
MAX_RANK = 64


@dataclass(frozen=True)
class TreeShape:
    """Paths of a static tree, without the root, every prefix present, in (length, lexicographic) order.

    Raises HeadwayError when a path's parent is missing, a rank is out of range, or there are too many nodes.
    """

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        listed = tuple(sorted(set(self.paths), key=lambda path: (len(path), path)))
        if len(listed) > MAX_NODES:
            raise HeadwayError(
                f"The tree has {len(listed)} nodes, but at most {MAX_NODES} are supported; drop some paths."
            )
        present = set(listed)
        for path in listed:
            if not path:
                raise HeadwayError("A path of the tree is empty; the root is implied, so leave it out.")
            if not all(0 <= rank < MAX_RANK for rank in path):
                raise HeadwayError(f"Path {list(path)} has a rank outside 0 to {MAX_RANK - 1}; drop it.")
            if len(path) > 1 and path[:-1] not in present:
                raise HeadwayError(f"Path {list(path)} has no parent: add {list(path[:-1])} or remove it.")
        object.__setattr__(self, "paths", listed)

    @property
    def num_nodes(self) -> int:
        """N: drafted nodes, the root not counted."""
        return len(self.paths)

    @cached_property
    def max_depth(self) -> int:
        return max((len(path) for path in self.paths), default=0)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Column of the parent of each of the N + 1 nodes; -1 for the root."""
        column: dict[Path, int] = {(): 0} | {path: i for i, path in enumerate(self.paths, start=1)}
        return (-1, *(column[path[:-1]] for path in self.paths))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each of the N + 1 nodes; 0 for the root."""
        return (0, *(len(path) for path in self.paths))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Rank of each of the N + 1 nodes among the candidates of its depth; 0 for the root."""
        return (0, *(path[-1] for path in self.paths))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Candidates needed at depth 1, 2, ...: the largest rank used there plus one."""
        return tuple(1 + max(p[-1] for p in self.paths if len(p) == d) for d in range(1, self.max_depth + 1))

    @cached_property
    def max_children(self) -> tuple[int, ...]:
        """The most children that any node of depth 0, 1, ..., max_depth - 1 has."""
        children = Counter(self.parents[1:])
        return tuple(max(n for p, n in children.items() if self.depths[p] == d) for d in range(self.max_depth))

    def cut(self, depth: int) -> TreeShape:
        """The same tree without the nodes deeper than `depth`; made once, since drafters ask in every step."""
        if depth >= self.max_depth:
            return self
        if depth not in self._cuts:
            self._cuts[depth] = TreeShape(tuple(path for path in self.paths if len(path) <= depth))
        return self._cuts[depth]

    @cached_property
    def _cuts(self) -> dict[int, TreeShape]:
        return {}

    def parents_on(self, device: torch.device) -> Tensor:
        return _int_tensor(self.parents, str(device))

    def ranks_on(self, device: torch.device) -> Tensor:
        return _int_tensor(self.ranks, str(device))

    def depths_on(self, device: torch.device) -> Tensor:
        return _int_tensor(self.depths, str(device))

    def to_json(self) -> list[list[int]]:
        """Medusa's notation: a list of paths."""
        return [list(path) for path in self.paths]


@lru_cache(maxsize=512)
def _int_tensor(values: tuple[int, ...], device: str) -> Tensor:
    # Shapes stay the same for a whole run: one transfer to the device, then reuse.
    return torch.tensor(values, dtype=torch.int64, device=device)


def chain(depth: int) -> TreeShape:
    """One candidate at every depth: what vLLM decodes.

    Raises HeadwayError when it is deeper than a tree may have nodes.
    """
    if not 0 <= depth <= MAX_NODES:  # asked before a million paths are made
        raise HeadwayError(f"A chain of {depth} nodes is not possible; its depth must be 0 to {MAX_NODES}.")
    return TreeShape(tuple((0,) * d for d in range(1, depth + 1)))


def product(widths: Iterable[int]) -> TreeShape:
    """Cartesian product: the best widths[0] candidates of depth 1, under each the best widths[1] of depth 2, ..."""
    layer: list[Path] = [()]
    paths: list[Path] = []
    for width in widths:
        if not 1 <= width <= MAX_RANK:
            raise HeadwayError(f"A level of the tree is {width} wide; it must be 1 to {MAX_RANK}.")
        layer = [(*path, rank) for path in layer for rank in range(width)]
        paths += layer
        if len(paths) > MAX_NODES:
            raise HeadwayError(f"The product tree has more than {MAX_NODES} nodes; make it narrower or shallower.")
    return TreeShape(tuple(paths))


def parse_tree(text: str) -> TreeShape:
    """The tree a person typed: `chain-4`, `3x2x1`, a preset's name, or JSON paths such as [[0],[1],[0,0]].

    Raises HeadwayError with what is accepted when the text is none of these.
    """
    text = text.strip()
    if text in PRESETS:
        return TreeShape(tuple(tuple(path) for path in PRESETS[text]))
    if text == "none":
        return TreeShape(())
    if re.fullmatch("chain-[0-9]{1,9}", text):
        return chain(int(text[6:]))
    if re.fullmatch("[0-9]{1,9}(x[0-9]{1,9})*", text):
        return product(int(part) for part in text.split("x"))
    if text.startswith("["):
        return _parse_paths(text)
    names = ", ".join(PRESETS)
    raise HeadwayError(
        f"Unknown tree {text[:40]!r}: use none, chain-4, 3x2x1, {names}, eagle2, or JSON paths like [[0],[1],[0,0]]."
    )


def _parse_paths(text: str) -> TreeShape:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise HeadwayError(
            f"The tree is not valid JSON ({error.msg} at character {error.pos}); write paths like [[0],[1],[0,0]]."
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets in brackets
        data = None
    return shape_from_paths(data)


def shape_from_paths(data: Any) -> TreeShape:
    """The tree of a list of paths, as JSON gives it. Raises HeadwayError for anything else."""
    plain = isinstance(data, list) and all(
        isinstance(path, list) and all(type(rank) is int for rank in path) for path in data
    )
    if not plain:
        raise HeadwayError("A JSON tree must be a list of paths, each a list of whole numbers, like [[0],[1],[0,0]].")
    return TreeShape(tuple(tuple(path) for path in data))


@lru_cache(maxsize=64)
def bounding(depth: int, nodes: int) -> TreeShape:
    """Some shape with this depth and this many nodes: stands for trees that are grown anew in every step.

    Raises HeadwayError when there are fewer nodes than levels, or too many.
    """
    if not depth <= nodes <= MAX_NODES:
        raise HeadwayError(f"A tree of depth {depth} can't have {nodes} nodes; it has {depth} to {MAX_NODES}.")
    paths: list[Path] = [(0,) * d for d in range(1, depth + 1)]
    open_nodes: list[tuple[Path, int]] = [((0,) * d, 1) for d in range(depth)]  # (path, its next rank), all inner
    while len(paths) < nodes:
        path, rank = open_nodes.pop(0)
        child = (*path, rank)
        paths.append(child)
        if rank + 1 < MAX_RANK:
            open_nodes.append((path, rank + 1))
        if len(child) < depth:
            open_nodes.append((child, 0))
    return TreeShape(tuple(paths))
