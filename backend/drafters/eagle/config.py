"""Shape of an EAGLE head, as it stands in a checkpoint, and the settings it is trained with. Knows no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.family import Preset
from backend.drafters.layer.config import LayerShape, PairSettings


class EagleConfig(BaseModel):
    """What has to be known to build the head before its weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: LayerShape
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    draft_vocab_size: int | None = Field(
        8192, ge=1, description="rows of the target's head that are scored; none: the whole vocabulary"
    )

    fc_bias: bool = Field(False, description="the joining layer has a bias; only imported heads do")

    @property
    def output_size(self) -> int:
        """Vd: tokens that can be drafted."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size


class EagleSettings(PairSettings):
    """What a person chooses when an EAGLE head is trained. Embedding and output head are the target's, frozen.

    Without a preset it is the published recipe: one step on the target's own states, most of the loss on the next one.
    """

    family: Literal["eagle"] = Field("eagle", description="kind of drafter")
    test_time_steps: int = Field(
        1, ge=1, le=16, description="depths trained on the drafter's own states; 1: on the target's states alone"
    )
    token_weight: float = Field(0.1, ge=0, description="weight of the loss on tokens")
    feature_weight: float = Field(
        1.0, ge=0, description="weight of the distance (smooth L1) to the target's own next state"
    )
    noise: float = Field(0.1, ge=0, le=1, description="uniform noise of this size is added to the states read")

    @property
    def states_a_token(self) -> int:
        return 1  # the last hidden state, which the head reads and is compared with


#: `paper`: arXiv 2401.15077, section 4, and the published training script; its linear schedule is half a cosine here.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {
            "draft_vocab": 0, "test_time_steps": 1, "loss": "soft", "token_weight": 0.1, "feature_weight": 1.0,
            "noise": 0.1, "draft_depth": 5,
        },
        "training": {
            "epochs": 20.0, "batch_tokens": 8192, "learning_rate": 3e-5, "warmup_fraction": 0.0025, "beta_1": 0.9,
            "beta_2": 0.95, "gradient_value_clip": 0.5,
        },
    },
    "small": {
        "drafter": {
            "draft_vocab": 8192, "test_time_steps": 3, "loss": "soft", "token_weight": 1.0, "feature_weight": 0.1,
            "noise": 0.1, "draft_depth": 4,
        },
        "training": {"epochs": 4.0, "batch_tokens": 1024, "learning_rate": 5e-4, "warmup_fraction": 0.03},
    },
}  # fmt: skip
