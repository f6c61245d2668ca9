"""How to train and how to distil, as it stands in a form or a file; the same for every family. Knows no model."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Precision = Literal["float32", "bfloat16"]


class TrainConfig(BaseModel):
    """Settings of the training loop."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: float = Field(2.0, gt=0, le=1000, description="passes over the training positions")
    steps: int | None = Field(None, ge=1, description="stop after this many steps instead of counting epochs")
    batch_tokens: int = Field(
        1024,
        ge=1,
        le=1 << 20,
        description="positions a step; of families that learn from whole texts: tokens, padding included",
    )
    learning_rate: float = Field(1e-3, gt=0, le=1.0, description="peak learning rate")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="part of the steps in which the learning rate rises")
    final_fraction: float = Field(0.0, ge=0, le=1, description="part of the peak at which the cosine ends")
    weight_decay: float = Field(0.0, ge=0, le=1, description="how strongly weights are pulled to zero")
    beta_1: float = Field(0.9, ge=0, lt=1, description="memory of the optimiser's mean gradient")
    beta_2: float = Field(0.95, ge=0, lt=1, description="memory of the optimiser's mean squared gradient")
    gradient_clip: float = Field(1.0, gt=0, description="largest norm of the gradient; longer ones are shortened")
    gradient_value_clip: float | None = Field(
        None, gt=0, description="cut every number of the gradient to this instead of shortening the whole; default: off"
    )
    precision: Precision = Field(
        "float32",
        description="numbers of a step's products; bfloat16 is faster where the hardware has it, weights stay float32",
    )
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same run")
    checkpoint_every: int = Field(100, ge=1, description="steps between checkpoints; a killed run loses at most these")
    kept_checkpoints: int = Field(
        2, ge=0, le=1000, description="newest checkpoints whose weights are kept to fork from, beside the best ones"
    )
    evaluate_every: int = Field(200, ge=1, description="steps between evaluations on held-out prompts")
    report_every: int = Field(10, ge=1, description="steps between reported losses")
    explosion_reports: int = Field(
        0, ge=0, le=10_000, description="stop when the loss stays exploded for this many reports in a row; 0: never"
    )
    explosion_factor: float = Field(
        4.0, gt=1, le=1000, description="a loss counts as exploded above this many times its best running mean"
    )
    decode_prompts: int = Field(
        4, ge=0, le=256, description="held-out prompts decoded at each evaluation to see the real acceptance; 0: none"
    )
    decode_tokens: int = Field(64, ge=2, le=2048, description="tokens decoded for each of these prompts")
    keep: Literal["best", "last"] = Field(
        "best", description="which weights the run ends with: those of the best real acceptance, or the last ones"
    )

    def total_steps(self, positions: int) -> int:
        """Steps of the whole run over `positions` training positions; a last, smaller batch of an epoch is left out."""
        return self.steps_over(self.steps_per_epoch(positions))

    def steps_over(self, per_epoch: int) -> int:
        """Steps of the whole run where an epoch has this many."""
        return self.steps if self.steps is not None else max(1, int(self.epochs * per_epoch))

    def steps_per_epoch(self, positions: int) -> int:
        return max(1, positions // self.batch_tokens)


class DistillConfig(BaseModel):
    """How answers are made. Every user turn is answered once for each temperature."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_new_tokens: int = Field(
        192, ge=1, le=8192, description="longest answer; longer ones are cut and marked truncated"
    )
    temperatures: tuple[float, ...] = Field(
        (0.0, 1.0), min_length=1, description="every prompt is answered once at each of these"
    )
    batch: int = Field(32, ge=1, le=512, description="answers decoded at the same time")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same answers at a temperature above 0")
    turns: int | None = Field(
        None, ge=1, description="answer at most this many user turns of a conversation; default: all"
    )
    system: str | None = Field(None, description="system prompt; empty: the template's own default")

    @field_validator("temperatures")
    @classmethod
    def _sensible(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= value <= 5 for value in values):
            raise ValueError("temperatures must lie between 0 and 5")
        if len(set(values)) < len(values):
            raise ValueError("each temperature may stand there once only")
        return values
