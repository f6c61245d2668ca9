"""Sizes of a drafter's own decoder layer, and how such layers are trained, as they stand in forms, files and
checkpoints. Torch-free; knows no family.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.family import FamilySettings

LossName = Literal["soft", "hard", "kl", "lk", "lk-hybrid"]
LOSS_HELP = (
    "soft: the target's probabilities; hard: the answer's token; kl: as soft, counted from 0; lk: acceptance itself; "
    "lk-hybrid: kl far from the target, acceptance near it"
)


class LayerShape(BaseModel):
    """Sizes of the layer, as they stand in a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden_size: int = Field(ge=1, description="width of the layer")
    num_heads: int = Field(ge=1, description="query heads")
    num_kv_heads: int = Field(ge=1, description="key and value heads, shared by groups of query heads")
    head_dim: int = Field(ge=2, description="width of a head")
    intermediate_size: int = Field(ge=1, description="width inside the feed-forward part")
    rope_theta: float = Field(10000.0, gt=0, description="base of the rotary frequencies")
    rms_norm_eps: float = Field(1e-5, gt=0, description="added under the root of every norm")


class PairTrainConfig(BaseModel):
    """What of the training of such layers is not the loop's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(4, ge=1, le=16, description="test-time steps: depths that are trained on own features")
    depth: int | None = Field(None, ge=1, le=16, description="depths that are measured; none: those trained")
    decay: float = Field(0.8, gt=0, le=1, description="step j's loss counts decay^j")
    loss: LossName = Field("soft", description=LOSS_HELP)
    token_weight: float = Field(1.0, ge=0, description="weight of the loss on tokens")
    feature_weight: float = Field(0.0, ge=0, description="weight of the distance to the target's own next feature")
    noise: float = Field(0.0, ge=0, le=1, description="uniform noise of this size is added to the features read")
    compute: str = Field(
        "float32", pattern="^(float32|bfloat16)$", description="dtype of the products with the output rows"
    )


class PairSettings(FamilySettings):
    """What a person chooses for any drafter with a layer of its own; each family's config.py derives its own."""

    test_time_steps: int = Field(
        4, ge=1, le=16, description="depths trained on the drafter's own states; 1: on the target's states alone"
    )
    draft_depth: int = Field(4, ge=1, le=16, description="levels that are measured and drafted with a chain")
    loss: LossName = Field("soft", description=LOSS_HELP)
    decay: float = Field(0.8, gt=0, le=1, description="depth d's loss counts decay^(d - 1)")
    token_weight: float = Field(1.0, ge=0, description="weight of the loss on tokens")
    feature_weight: float = Field(
        0.0, ge=0, description="weight of the distance (smooth L1) to the target's own next state"
    )
    noise: float = Field(0.0, ge=0, le=1, description="uniform noise of this size is added to the states read")
    compute: Literal["float32", "bfloat16"] = Field(
        "float32", description="numbers of the output-layer products; bfloat16 is faster where the hardware has it"
    )

    @property
    def depth(self) -> int:
        return self.draft_depth

    def loss_settings(self) -> PairTrainConfig:
        """The part that decides the loss."""
        return PairTrainConfig(
            steps=self.test_time_steps,
            depth=self.draft_depth,
            decay=self.decay,
            loss=self.loss,
            token_weight=self.token_weight,
            feature_weight=self.feature_weight,
            noise=self.noise,
            compute=self.compute,
        )
