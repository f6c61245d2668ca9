"""How to train, as it stands in a form or a file; the same for every family. Knows no model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TrainConfig(BaseModel):
    """Settings of the training loop."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: float = Field(2.0, gt=0, le=1000, description="passes over the training positions")
    steps: int | None = Field(None, ge=1, description="stop after this many steps instead of counting epochs")
    batch_tokens: int = Field(1024, ge=1, le=1 << 20, description="positions a step")
    learning_rate: float = Field(1e-3, gt=0, le=1.0, description="peak learning rate")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="part of the steps in which the learning rate rises")
    final_fraction: float = Field(0.0, ge=0, le=1, description="part of the peak at which the cosine ends")
    weight_decay: float = Field(0.0, ge=0, le=1)
    beta_1: float = Field(0.9, ge=0, lt=1)
    beta_2: float = Field(0.95, ge=0, lt=1)
    gradient_clip: float = Field(1.0, gt=0, description="largest norm of the gradient; longer ones are shortened")
    seed: int = Field(0, ge=0)
    checkpoint_every: int = Field(100, ge=1, description="steps between checkpoints; a killed run loses at most these")
    evaluate_every: int = Field(200, ge=1, description="steps between evaluations on held-out positions")
    report_every: int = Field(10, ge=1, description="steps between reported losses")

    def total_steps(self, positions: int) -> int:
        """Steps of the whole run over `positions` training positions; a last, smaller batch of an epoch is left out."""
        if self.steps is not None:
            return self.steps
        return max(1, int(self.epochs * self.steps_per_epoch(positions)))

    def steps_per_epoch(self, positions: int) -> int:
        return max(1, positions // self.batch_tokens)
