"""A tree that is grown anew in every step, as a value; and the one parser for whatever tree a person may ask for.

Knows no drafter: what grows in which order is drafters/growing.py's business, which drafter can do it registry.py's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from backend.errors import HeadwayError
from backend.trees.adaptive import AdaptiveShape, adaptive_from
from backend.trees.shapes import MAX_NODES, TreeShape, bounding, parse_tree


@dataclass(frozen=True)
class DynamicShape:
    """How far EAGLE-2's tree grows. N counts drafted nodes: EAGLE's `total_token` is num_nodes + 1.

    depth: levels that are drafted; top_k: nodes extended at a level, and children taken of each; num_nodes: drafted
    nodes that are kept for verification, the most likely ones. Raises HeadwayError when the numbers make no tree.
    """

    depth: int
    top_k: int
    num_nodes: int

    def __post_init__(self) -> None:
        if not (1 <= self.depth <= 32 and 1 <= self.top_k <= 64):
            raise HeadwayError(
                f"A dynamic tree needs a depth of 1 to 32 and a top-k of 1 to 64, not {self.depth} and {self.top_k}."
            )
        most = min(self.most_nodes, MAX_NODES)
        if not self.depth <= self.num_nodes <= most:
            raise HeadwayError(
                f"A dynamic tree of depth {self.depth} and top-k {self.top_k} holds {self.depth} to {most} nodes, "
                f"not {self.num_nodes}."
            )

    @property
    def most_nodes(self) -> int:
        """All nodes that are offered."""
        return self.top_k + (self.depth - 1) * self.top_k**2

    @property
    def max_depth(self) -> int:
        return self.depth

    def cut(self, depth: int) -> DynamicShape | TreeShape:
        """The same tree with at most `depth` levels; without any it is the empty static one."""
        if depth >= self.depth:
            return self
        if depth < 1:
            return TreeShape(())
        most = self.top_k + (depth - 1) * self.top_k**2
        return DynamicShape(depth, self.top_k, min(self.num_nodes, most))

    def bounds(self) -> TreeShape:
        """Some static shape of this depth and size: what has to be made room for."""
        return bounding(self.depth, self.num_nodes)

    def to_json(self) -> dict[str, dict[str, int]]:
        """As it may be asked for."""
        return {"dynamic": asdict(self)}


Tree = TreeShape | DynamicShape | AdaptiveShape
DYNAMIC_PRESETS: Final[Mapping[str, DynamicShape]] = {
    # EAGLE's own: total_token 60, which counts the root; depth 7, the levels behind the first one; top_k 10.
    "eagle2": DynamicShape(depth=8, top_k=10, num_nodes=59),
}
_FORM: Final = '{"dynamic": {"depth": 8, "top_k": 10, "num_nodes": 59}}'


def parse_any_tree(text: str) -> Tree:
    """The tree a person typed: `eagle2`, a dynamic or adaptive tree in JSON, or anything that `parse_tree` takes.

    Raises HeadwayError with what is accepted when the text is none of these.
    """
    text = text.strip()
    if text in DYNAMIC_PRESETS:
        return DYNAMIC_PRESETS[text]
    if not text.startswith("{"):
        return parse_tree(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    return adaptive_from(data) if isinstance(data, Mapping) and "adaptive" in data else dynamic_from(data)


def dynamic_from(data: Any) -> DynamicShape:
    """A dynamic tree from what `to_json` gives. Raises HeadwayError for anything else."""
    inner = data.get("dynamic") if isinstance(data, Mapping) and len(data) == 1 else None
    names = DynamicShape.__dataclass_fields__.keys()
    whole = isinstance(inner, Mapping) and all(type(value) is int for value in inner.values())
    if not isinstance(inner, Mapping) or inner.keys() != names or not whole:
        raise HeadwayError(f"A dynamic tree is asked for as eagle2 or {_FORM}, with whole numbers.")
    return DynamicShape(**inner)
