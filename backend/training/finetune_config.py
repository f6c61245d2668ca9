"""How a target is fine-tuned, as it stands in a form or a file. Torch-free; knows no model."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class FinetuneConfig(BaseModel):
    """Settings of a small supervised fine-tune. What is minimised: the cross-entropy of the given answers' tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backbone: Literal["lora", "full"] = Field(
        "lora", description="what is trained: low-rank additions that are merged at the end, or all of the target"
    )
    lora_rank: int = Field(16, ge=1, le=512, description="rank of the low-rank additions")
    lora_alpha: float = Field(32.0, gt=0, le=1024, description="their strength is this over the rank")
    rate: float = Field(1e-3, gt=0, le=1, description="peak learning rate")
    epochs: float = Field(2.0, gt=0, le=1000, description="passes over the training answers")
    steps: int | None = Field(None, ge=1, description="stop after this many steps instead of counting epochs")
    batch_tokens: int = Field(1024, ge=1, le=1 << 20, description="tokens a step, prompts and padding included")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="part of the steps in which the rate rises")
    gradient_clip: float = Field(1.0, gt=0, description="largest norm of the gradient; longer ones are shortened")
    weight_decay: float = Field(0.0, ge=0, le=1, description="how strongly weights are pulled to zero")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same run")
    checkpoint_every: int = Field(50, ge=1, description="steps between checkpoints; a killed run loses at most these")
    report_every: int = Field(5, ge=1, description="steps between reported losses")
