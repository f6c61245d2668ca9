"""What an exactness audit is told. Torch-free."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from backend.engine.protocol import RuleName
from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text


class AuditJobConfig(TargetConfig):
    """One drafter with one tree and rule: does it leave the target's output as it is?"""

    drafter: Text = Field("builtin-medusa", description="builtin-medusa, ngram, draft:MODEL or a folder of heads")
    tree: Text | None = Field(None, description="chain-4, 3x2x1, medusa-63, eagle2 or JSON; default: the drafter's own")
    rule: RuleName = Field("rejection", description="rejection is exact; typical is approximate: its drift is measured")
    epsilon: float = Field(0.09, gt=0, lt=1, description="typical rule: probability that always passes")
    delta: float = Field(0.3, gt=0, le=1, description="typical rule: lower bar where the target is unsure")
    temperature: float = Field(1.0, gt=0, le=5, description="temperature of the sampled part")
    top_k: int = Field(0, ge=0, description="draw among the k best tokens only; 0 is off")
    top_p: float = Field(1.0, gt=0, le=1, description="draw among the best tokens that make up this share")
    min_p: float = Field(0.0, ge=0, le=1, description="drop tokens below this share of the best one")
    repetition_penalty: float = Field(1.0, ge=0.01, le=100, description="above 1 avoids tokens already seen")
    sampled: bool = Field(False, description="draw siblings at random instead of taking the best ones")
    prompts: tuple[Text, ...] = Field(
        (), description="JSONL with turns, ShareGPT or Alpaca; default: the project's own held-out prompts"
    )
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    max_new_tokens: int = Field(64, ge=2, le=8192, description="longest answer, in tokens")
    greedy_answers: int = Field(20, ge=0, le=10_000, description="answers at temperature 0 that are compared")
    total_variation: float = Field(0.05, ge=0.001, le=0.5, description="deviation among the ranks that has to be found")
    power: float = Field(0.9, ge=0.5, le=0.999, description="probability to find it")
    alpha: float = Field(0.001, gt=0, le=0.1, description="probability that an exact drafter is called inexact")
    minutes: float = Field(10.0, gt=0, le=10_000, description="time for sampling; what is missing then is said")
    batch: int = Field(8, ge=1, le=256, description="prompts answered at once")
    seed: int = Field(0, ge=0, description="same seed, same answers")
    force: bool = Field(False, description="audit heads of another version all the same, labelled")
    out: Text | None = Field(None, description="also write the certificate to this JSON file, and beside it as HTML")
    name: Name | None = Field(None, description="name of the audit; default: made of drafter and target")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.drafter.strip() == "none":
            raise HeadwayError("Plain decoding drafts nothing, so there is nothing to audit; name a drafter.")
        if self.rule == "greedy":
            raise HeadwayError("Every audit has a greedy part; its rule says how to sample: rejection or typical.")
        if self.rule == "typical" and self.sampled:
            raise HeadwayError("The typical rule looks at the target only; leave drawn siblings off.")
        return self
