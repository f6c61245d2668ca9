"""What the acceptance doctor is told. Torch-free."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text


class DoctorJobConfig(TargetConfig):
    """One drafter with one target: why does it accept as little as it does?"""

    drafter: Text = Field("builtin-medusa", description="builtin-medusa, ngram, draft:MODEL or a folder of heads")
    tree: Text | None = Field(None, description="chain-4, 3x2x1, medusa-63, eagle2 or JSON; default: the drafter's own")
    prompts: tuple[Text, ...] = Field(
        (), description="JSONL with turns, ShareGPT or Alpaca; default: the project's own held-out prompts"
    )
    limit: int | None = Field(24, ge=1, description="only the first N prompts of each file")
    raw: bool = Field(False, description="prompts are served as raw text, without the chat template")
    temperature: float = Field(0.0, ge=0, le=5, description="temperature that is served with")
    max_new_tokens: int = Field(64, ge=4, le=8192, description="longest answer, in tokens")
    answers: Text | None = Field(None, description="what it was trained on (JSONL or .npz): also tests the data")
    cost: Text | None = Field(None, description="a cost curve's file or job: also tests whether the tree pays")
    expected: float | None = Field(None, gt=0, description="the number that was promised, to see what it counts")
    batch: int = Field(8, ge=1, le=256, description="prompts answered at once")
    seed: int = Field(0, ge=0, description="same seed, same answers")
    out: Text | None = Field(None, description="also write the diagnosis to this JSON file")
    name: Name | None = Field(None, description="name of the diagnosis; default: made of drafter and target")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.drafter.strip() == "none":
            raise HeadwayError("Plain decoding drafts nothing, so nothing can be wrong with it; name a drafter.")
        return self
