"""What a search for the fastest tree is told. Torch-free."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.errors import HeadwayError
from backend.jobs.configs import Name, Text

NODES = 64
Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]


class TuneJobConfig(BaseModel):
    """A calibration, or hit rates alone, and the costs that a tree is held against."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calibration: Text | None = Field(None, description="what `calibrate` wrote, or the id of its job")
    hits: Text | None = Field(
        None, description='instead of a calibration: hit rates, {"hits": [[0.6, 0.2], [0.4]]}, a list a depth'
    )
    nodes: int = Field(NODES, ge=1, le=512, description="most drafted nodes; the root is not counted")
    cost: Text | None = Field(
        None, description="what `cost` wrote, or the id of its job; without it the longest tree is found"
    )
    batch: int = Field(1, ge=1, le=256, description="sequences at once")
    context: int | None = Field(None, ge=1, description="tokens before the tree; default: the calibration's mean")
    temperature: Temperature | None = Field(None, description="of the calibration; default: its lowest")
    category: Text | None = Field(None, description="only this domain of the calibration")
    against: tuple[Text, ...] = Field((), description="predict this tree too")
    sampled: bool = Field(False, description="siblings are drawn at random (no stops by confidence)")
    out: Text | None = Field(None, description="also write what was found to this file")
    name: Name | None = Field(None, description="name of the tuned tree; default: made of the calibration")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.calibration is None and self.hits is None:
            raise HeadwayError("Give --calibration, what `calibrate` wrote or its job's id, or hit rates with --hits.")
        if self.calibration is not None and self.hits is not None:
            raise HeadwayError(
                "Give --calibration or --hits, not both: each says by itself how often guesses are right."
            )
        return self

    @property
    def device(self) -> str:
        """Where it is worked on: a search needs no more than a processor."""
        return "cpu"
