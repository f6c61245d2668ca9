"""What a calibration is told. Torch-free."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from backend.jobs.configs import Name, TargetConfig, Text

Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]


class CalibrateJobConfig(TargetConfig):
    """One drafter along the target's own answers to prompts it has not been trained on."""

    drafter: Text = Field("builtin-medusa", description="builtin-medusa, ngram, draft:MODEL or a folder of heads")
    prompts: tuple[Text, ...] = Field(
        min_length=1, description="held-out prompts: JSONL with turns, ShareGPT or Alpaca"
    )
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    temperatures: tuple[Temperature, ...] = Field((0.0,), min_length=1, description="temperatures, with commas")
    max_new_tokens: int = Field(64, ge=2, le=8192, description="longest answer, in tokens")
    batch: int = Field(8, ge=1, le=256, description="prompts answered at once")
    nodes: int = Field(96, ge=1, le=512, description="nodes that are drafted at every position")
    ranks: int = Field(10, ge=1, le=32, description="candidates of a node that are looked at")
    depth: int = Field(8, ge=1, le=8, description="deepest level that is looked at, as far as the drafter goes")
    seed: int = Field(0, ge=0, description="same seed, same answers")
    force: bool = Field(False, description="calibrate heads of another version all the same, labelled")
    out: Text | None = Field(None, description="also write the calibration to this file")
    name: Name | None = Field(None, description="name of the calibration; default: made of drafter and target")
