"""Shape of a set of Medusa heads, as it stands in a checkpoint, and the settings they are trained with. Knows no
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.family import FamilySettings, Preset


class MedusaConfig(BaseModel):
    """What has to be known to build the heads before their weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden_size: int = Field(ge=1, description="width of the target's hidden state")
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    num_heads: int = Field(4, ge=1, le=16, description="heads; head k guesses the token k + 2 places on")
    num_blocks: int = Field(1, ge=1, le=8, description="residual blocks of each head")
    shared_output: bool = Field(False, description="one output layer for all heads instead of one each")
    draft_vocab_size: int | None = Field(
        8192, ge=1, description="tokens the heads can draft, the most frequent ones; none: the whole vocabulary"
    )

    @property
    def output_rows(self) -> int:
        """Vd: tokens scored by a head."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size

    @property
    def output_layers(self) -> int:
        return 1 if self.shared_output else self.num_heads


class MedusaTrainConfig(BaseModel):
    """What of Medusa's training is not the loop's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decay: float = Field(0.8, gt=0, le=1, description="head k's loss counts decay^k")
    compute: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="dtype of the products with the output layer; bfloat16 is faster where the hardware has it",
    )


class MedusaSettings(FamilySettings):
    """What a person chooses when heads are trained; the rest of MedusaConfig follows from the target."""

    family: Literal["medusa"] = Field("medusa", description="kind of drafter")
    num_heads: int = Field(4, ge=1, le=16, description="heads; head k guesses the token k + 2 places on")
    num_blocks: int = Field(1, ge=1, le=8, description="residual blocks of each head")
    shared_output: bool = Field(False, description="one output layer for all heads instead of one each")
    decay: float = Field(0.8, gt=0, le=1, description="head k's loss counts decay^k")
    compute: Literal["float32", "bfloat16"] = Field(
        "float32", description="numbers of the output-layer products; bfloat16 is faster where the hardware has it"
    )

    @property
    def depth(self) -> int:
        return self.num_heads

    def loss_settings(self) -> MedusaTrainConfig:
        """The part that decides the loss."""
        return MedusaTrainConfig(decay=self.decay, compute=self.compute)


#: `paper`: arXiv 2401.10774 and the training script that came with it. `blockwise`: blockwise parallel decoding, arXiv
#: 1811.03115: heads with a shared output layer, equal losses, a chain and (with the greedy rule) exact match.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {"num_heads": 3, "num_blocks": 1, "shared_output": False, "draft_vocab": 0, "decay": 0.8},
        "training": {"epochs": 2.0, "learning_rate": 1e-3, "warmup_fraction": 0.1, "weight_decay": 0.0},
    },
    "small": {
        "drafter": {"num_heads": 4, "num_blocks": 1, "shared_output": True, "draft_vocab": 8192, "decay": 0.8},
        "training": {"epochs": 3.0, "batch_tokens": 2048, "learning_rate": 1e-3, "warmup_fraction": 0.05},
    },
    "blockwise": {
        "drafter": {"num_heads": 4, "num_blocks": 1, "shared_output": True, "draft_vocab": 0, "decay": 1.0},
        "training": {"epochs": 2.0, "learning_rate": 1e-3, "warmup_fraction": 0.1},
        "tree": "chain",
    },
}
