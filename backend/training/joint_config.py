"""How drafter and backbone are trained together, as it stands in a form or a file. Torch-free; knows no model."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class JointConfig(BaseModel):
    """What is minimised: label_weight * cross-entropy of the answers + original_weight * KL to the original +
    head_weight * the drafter's loss. Of Medusa that is Medusa-2; of MTP modules, whose loss is the mean of the depths',
    head_weight is the published lambda.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    backbone: Literal["lora", "full"] = Field(
        "lora", description="what of the target is trained: low-rank additions that are merged at the end, or all of it"
    )
    lora_rank: int = Field(32, ge=1, le=512, description="rank of the low-rank additions")
    lora_alpha: float = Field(16.0, gt=0, le=1024, description="their strength is this over the rank")
    epochs: float = Field(2.0, gt=0, le=1000, description="passes over the training answers")
    steps: int | None = Field(None, ge=1, description="stop after this many steps instead of counting epochs")
    batch_tokens: int = Field(1024, ge=1, le=1 << 20, description="tokens a step, prompts and padding included")
    head_rate: float = Field(2e-3, gt=0, le=1, description="peak learning rate of the drafter")
    backbone_rate: float = Field(5e-4, gt=0, le=1, description="peak learning rate of the target")
    heads_alone: float = Field(0.3, ge=0, le=1, description="part of the steps in which only the drafter learns, first")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="part of the steps in which the rates rise")
    head_weight: float = Field(0.2, ge=0, le=10, description="weight of the drafter's loss beside the target's own")
    label_weight: float = Field(0.0, ge=0, le=10, description="weight of the cross-entropy of the answers' tokens")
    original_weight: float = Field(1.0, ge=0, le=10, description="weight of the KL divergence from the original")
    gradient_clip: float = Field(1.0, gt=0, description="largest norm of the gradient; longer ones are shortened")
    weight_decay: float = Field(0.0, ge=0, le=1, description="how strongly weights are pulled to zero")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same run")
    checkpoint_every: int = Field(100, ge=1, description="steps between checkpoints; a killed run loses at most these")
    report_every: int = Field(10, ge=1, description="steps between reported losses")
