"""The files that tuning reads: hit rates, cost curves, calibrations. Whatever is wrong with one is one sentence.

Unknown keys are refused, so that a misspelt one is not silently ignored. Torch-free.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.errors import HeadwayError
from backend.tuning.cost_curve import CostCurve, PassCost, StepCost

ABOVE_ONE = 1e-4  #: rates of a depth may add up to this much more than 1, since they are rounded when written
MOST_RANKS = 64
Rate = Annotated[float, Field(allow_inf_nan=True)]
Ms = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Some = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
ModelT = TypeVar("ModelT", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HitsFile(_Strict):
    """`hits[d][r]`: the probability that rank r of depth d hits. `conditional`: path as text, "0,1", -> rates below."""

    hits: list[list[Rate]]
    conditional: dict[str, list[Rate]] = {}


class _Pass(_Strict):
    rows: Count
    batch: Count = 1
    context: Annotated[int, Field(ge=0)] = 0
    ms: Ms
    low: Some
    high: Ms
    repeats: Count


class _Step(_Strict):
    depth: Annotated[int, Field(ge=0)]
    extended: Annotated[int, Field(ge=0)]
    nodes: Annotated[int, Field(ge=0)]
    batch: Count
    draft_ms: Some
    other_ms: Some
    repeats: Count


class CostFile(_Strict):
    """What `cost` writes."""

    format: Annotated[int, Field(ge=1, le=1)]
    drafter: str = ""
    conditions: dict[str, Any] = {}
    notes: list[str] = []
    passes: Annotated[list[_Pass], Field(min_length=1)]
    steps: list[_Step] = []


class PlainCostFile(_Strict):
    """Times by hand: rows of a pass -> milliseconds, and what drafting and the rest of a step take."""

    rows_ms: Annotated[dict[Count, Ms], Field(min_length=1)]
    draft_ms: Some = 0.0
    other_ms: Some = 0.0


def read_hits(path: str | Path) -> HitsFile:
    """Rates that can be searched. Raises HeadwayError."""
    found = _checked(HitsFile, _read(path), path, 'write {"hits": [[0.6, 0.2], [0.4]]}, one list a depth')
    if not found.hits or not any(found.hits):
        raise HeadwayError(f"{path} holds no hit rates; calibrate a drafter first, or write one list of rates a depth.")
    rows = [(f"depth {number}", row) for number, row in enumerate(found.hits, 1)]
    for words, row in [*rows, *((f"path {path_}", row) for path_, row in found.conditional.items())]:
        _check_rates(path, words, row)
    if not any(any(row) for row in found.hits):
        raise HeadwayError(
            f"All hit rates in {path} are 0, so every tree is as good as none; calibrate on more prompts."
        )
    for text in found.conditional:
        path_of_text(text)
    return found


def path_of_text(text: str) -> tuple[int, ...]:
    """ "0,1" as a path. Raises HeadwayError."""
    try:
        path = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        path = (-1,)
    if not all(0 <= rank < MOST_RANKS for rank in path):
        raise HeadwayError(f"The conditional path {text[:40]!r} is none; write ranks with commas, such as 0,1.")
    return path


def _check_rates(path: str | Path, words: str, row: list[float]) -> None:
    if len(row) > MOST_RANKS:
        raise HeadwayError(f"{words} of {path} has {len(row)} ranks; at most {MOST_RANKS} are supported.")
    for number, rate in enumerate(row, 1):
        if not 0 <= rate <= 1:  # not true of NaN either
            raise HeadwayError(f"Rank {number} of {words} in {path} is {rate}; a hit rate is a probability, 0 to 1.")
    if math.fsum(row) > 1 + ABOVE_ONE:
        raise HeadwayError(
            f"The rates of {words} in {path} add up to {math.fsum(row):.4g}; one rank can be right, so 1 is the most."
        )


def read_cost(path: str | Path) -> CostCurve:
    """A cost curve as `cost` writes it, or one written by hand. Raises HeadwayError."""
    data = _read(path)
    wanted = 'take a file that `cost` wrote, or write {"rows_ms": {"1": 30.0, "8": 34.5}, "draft_ms": 1.0}'
    if isinstance(data, dict) and "rows_ms" in data:
        return by_hand(_checked(PlainCostFile, data, path, wanted))
    return curve_from(data, path)


def curve_from(data: Any, where: str | Path) -> CostCurve:
    """A stored curve back. Raises HeadwayError."""
    found = _checked(CostFile, data, where, "take a file that `cost` wrote")
    return CostCurve(
        tuple(PassCost(**one.model_dump()) for one in found.passes),
        tuple(StepCost(**one.model_dump()) for one in found.steps),
        found.drafter,
        found.conditions,
        tuple(found.notes),
    )


def by_hand(found: PlainCostFile) -> CostCurve:
    passes = [PassCost(rows, 1, 0, ms, ms, ms, 1) for rows, ms in sorted(found.rows_ms.items())]
    return CostCurve(tuple(passes), (StepCost(1, 0, 1, 1, found.draft_ms, found.other_ms, 1),))


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise HeadwayError(f"{path} can't be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise HeadwayError(f"{path} is not valid JSON; write it again.") from None


def _checked(model: type[ModelT], data: Any, path: str | Path, wanted: str) -> ModelT:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = first["msg"][:1].lower() + first["msg"][1:]
        raise HeadwayError(
            f"{path} is not what it should be ({where + ': ' if where else ''}{problem}); {wanted}."
        ) from None
