"""What a release is told. Torch-free."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from backend.drafters.families import PresetName
from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text

FamilyName = Literal["medusa", "hydra", "eagle", "eagle3", "mtp", "peagle"]
Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


class ReleaseJobConfig(TargetConfig):
    """A new checkpoint gets a drafter of its own, and is held against the version that serves now."""

    prompts: tuple[Text, ...] = Field(
        min_length=1, description="prompts as the model will be asked: JSONL with turns, ShareGPT or Alpaca"
    )
    family: FamilyName = Field("eagle3", description="kind of drafter to train")
    preset: PresetName = Field("small", description="its settings: paper or small")
    epochs: float | None = Field(None, gt=0, le=1000, description="passes over the answers; default: the preset's")
    draft_vocab: int | None = Field(
        None, ge=0, le=1 << 20, description="tokens that can be drafted, 0: all; default: the preset's"
    )
    batch_tokens: int | None = Field(None, ge=1, description="tokens of a training step; default: the preset's")
    answer_temperatures: tuple[Temperature, ...] = Field(
        (0.0, 1.0), min_length=1, description="every prompt to learn from is answered once at each of these"
    )
    max_new_tokens: int = Field(160, ge=2, le=8192, description="longest answer, in tokens")
    batch: int = Field(32, ge=1, le=512, description="answers decoded at the same time")
    temperature: Temperature = Field(0.0, description="temperature at which it is served: everything is measured there")
    held_out: float = Field(0.2, gt=0, lt=1, description="part of the prompts that is never trained on: half of it "
                            "chooses the tree, the other half is measured on")  # fmt: skip
    measured: int = Field(40, ge=1, description="most held-out prompts of a file that are measured on")
    nodes: int = Field(16, ge=1, le=512, description="most drafted nodes of the tree")
    cost_seconds: float = Field(60.0, gt=0, le=36_000, description="how long passes are timed to choose the tree")
    serving_target: Text | None = Field(
        None, description="the version that serves now; default: the one with the label serving"
    )
    serving_drafter: Text | None = Field(None, description="its drafter; default: the newest of that version")
    warm_start: bool = Field(True, description="start from the weights of the drafter that serves now, if they fit")
    compare_warm_start: bool = Field(False, description="train a second one from scratch and say what is better")
    min_acceptance: float | None = Field(None, ge=1, description="fail below this acceptance length")
    max_drop: Text | None = Field(
        None, description="fail when acceptance is more than this below that of the version that serves now, as in 5%"
    )
    eval: Text | None = Field(
        None, description="the model's own evaluation: JSONL with an answer a row, or a command that prints a number"
    )
    eval_check: Literal["exact", "regex"] = Field("exact", description="how answers of a file are held against texts")
    min_score: float | None = Field(None, description="fail when that evaluation gives less than this")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same drafter")
    out: Text = Field(description="folder that is made: drafter, tree and report")
    name: Name | None = Field(None, description="name of the drafter; default: the folder's")

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.allowed_drop
        if self.min_score is not None and self.eval is None:
            raise HeadwayError("A least score needs an evaluation: give --eval FILE or a command.")
        if self.compare_warm_start and not self.warm_start:
            raise HeadwayError("Without a warm start there is nothing to compare it with; leave --no-warm-start out.")
        return self

    @property
    def allowed_drop(self) -> float | None:
        """`max_drop` as a share; raises HeadwayError for what is none."""
        if self.max_drop is None:
            return None
        found = _SHARE.fullmatch(self.max_drop)
        share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
        if not 0 <= share < 1:
            raise HeadwayError(f"The largest drop is a share below 100 %, as in 5% or 0.05, not {self.max_drop!r}.")
        return share
