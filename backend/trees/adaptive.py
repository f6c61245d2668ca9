"""A tree of which less is drafted where it would not pay, as a value: in larger batches, or along an unsure chain.

Knows no drafter: drafters/adaptive.py does what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from backend.errors import HeadwayError
from backend.trees.shapes import TreeShape, chain, shape_from_paths

NEVER: Final = 2.0  #: a stop that no confidence reaches
FORM: Final = '{"adaptive": {"paths": [[0], [0, 0]], "stops": [0.4], "depths": {"1": 2, "8": 1}}}'


@dataclass(frozen=True)
class AdaptiveShape:
    """`shape`, and how much of it is drafted.

    stops: stops[d - 1] is the product of the first d guesses' probabilities that a level d + 1 needs (NEVER: no
    confidence is enough); for chains only. depths: (rows, depth) pairs: from how many rows on how deep is drafted, 0
    for nothing. Raises HeadwayError for numbers that mean nothing.
    """

    shape: TreeShape
    stops: tuple[float, ...] = ()
    depths: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.stops and self.shape != chain(self.shape.max_depth):
            raise HeadwayError("Stops by confidence work along a chain; choose a tree such as chain-4.")
        if any(not 0 <= stop <= NEVER for stop in self.stops):
            raise HeadwayError("A stop is a probability from 0 to 1, or null where no confidence is enough.")
        if len(self.stops) > max(0, self.shape.max_depth - 1):
            raise HeadwayError(
                f"There are {len(self.stops)} stops and {self.shape.max_depth} levels; level 1 needs none, so give at "
                f"most {max(0, self.shape.max_depth - 1)}."
            )
        rows = [first for first, _ in self.depths]
        if rows != sorted(set(rows)) or any(first < 1 or depth < 0 for first, depth in self.depths):
            raise HeadwayError("Depths by batch name rising numbers of rows from 1 on, each with a depth of 0 or more.")

    @property
    def num_nodes(self) -> int:
        return self.shape.num_nodes

    @property
    def max_depth(self) -> int:
        return self.shape.max_depth

    def cut(self, depth: int) -> AdaptiveShape:
        """The same with at most `depth` levels."""
        return self.of(self.shape.cut(depth))

    def of(self, shape: TreeShape) -> AdaptiveShape:
        """The same stops, as far as they reach, and depths for another shape."""
        return AdaptiveShape(shape, self.stops[: max(0, shape.max_depth - 1)], self.depths)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """As it may be asked for."""
        stops = [None if stop >= NEVER else stop for stop in self.stops]
        depths = {str(rows): depth for rows, depth in self.depths}
        return {"adaptive": {"paths": self.shape.to_json(), "stops": stops, "depths": depths}}


def adaptive_from(data: Any) -> AdaptiveShape:
    """A tree from what `to_json` gives; stops and depths may be left out. Raises HeadwayError for anything else."""
    inner = data.get("adaptive") if isinstance(data, Mapping) and len(data) == 1 else None
    refused = HeadwayError(f"A tree with stops or depths by batch is asked for as {FORM}.")
    if not isinstance(inner, Mapping) or "paths" not in inner or not inner.keys() <= {"paths", "stops", "depths"}:
        raise refused
    stops, depths = inner.get("stops", []), inner.get("depths", {})
    if not isinstance(stops, list) or not isinstance(depths, Mapping):
        raise refused
    if not all(stop is None or (isinstance(stop, int | float) and not isinstance(stop, bool)) for stop in stops):
        raise refused
    if not all(str(rows).isdigit() and type(depth) is int for rows, depth in depths.items()):
        raise refused
    return AdaptiveShape(
        shape_from_paths(inner["paths"]),
        tuple(NEVER if stop is None else float(stop) for stop in stops),
        tuple(sorted((int(rows), depth) for rows, depth in depths.items())),
    )
