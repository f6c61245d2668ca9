"""Shape of a set of Hydra heads, as it stands in a checkpoint. Knows no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.family import FamilySettings, Preset
from backend.drafters.layer.config import LOSS_HELP, LayerShape, LossName

HeadArch = Literal["mlp", "prefix-mlp"]
ARCH_HELP = (
    "mlp: heads that read the target's last state; prefix-mlp: Hydra++, one more decoder layer over the target's last "
    "states, whose output they read instead"
)
DROPOUT_HELP = "part of the numbers between a head's layers that is left out in training"


class HydraConfig(BaseModel):
    """What has to be known to build the heads before their weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden_size: int = Field(ge=1, description="width of the target's hidden state and embedding")
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    num_heads: int = Field(4, ge=1, le=16, description="heads; head k guesses the token k + 2 places on")
    num_blocks: int = Field(1, ge=0, le=8, description="residual blocks of each head behind the joining layer")
    shared_output: bool = Field(True, description="one output layer for all heads instead of one each")
    draft_vocab_size: int | None = Field(
        8192, ge=1, description="tokens the heads can draft, the most frequent ones; none: the whole vocabulary"
    )

    residual: Literal["state", "linear"] = Field(
        "state", description="what a joining layer adds to: the target's state, or a linear map of all it joins"
    )
    output_bias: bool = Field(False, description="output layers have a bias; only imported ones do")
    prefix: LayerShape | None = Field(
        None, description="sizes of Hydra++'s prefix layer; none: the heads read the target's state itself"
    )

    @property
    def output_rows(self) -> int:
        """Vd: tokens scored by a head."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size

    @property
    def output_layers(self) -> int:
        return 1 if self.shared_output else self.num_heads


class HydraTrainConfig(BaseModel):
    """What of Hydra's training is not the loop's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decay: float = Field(0.8, gt=0, le=1, description="head k's loss counts decay^k")
    loss: LossName = Field("hard", description=LOSS_HELP)
    compute: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="dtype of the products with the output layer; bfloat16 is faster where the hardware has it",
    )
    dropout: float = Field(0.0, ge=0, lt=1, description=DROPOUT_HELP)


class HydraSettings(FamilySettings):
    """What a person chooses when heads are trained; the rest of HydraConfig follows from the target."""

    family: Literal["hydra"] = Field("hydra", description="kind of drafter")
    head_arch: HeadArch = Field("mlp", description=ARCH_HELP)
    num_heads: int = Field(4, ge=1, le=16, description="heads; head k guesses the token k + 2 places on")
    num_blocks: int = Field(1, ge=0, le=8, description="residual blocks of each head behind the joining layer")
    shared_output: bool = Field(True, description="one output layer for all heads instead of one each")
    decay: float = Field(0.8, gt=0, le=1, description="head k's loss counts decay^k")
    loss: LossName = Field("hard", description=LOSS_HELP)
    compute: Literal["float32", "bfloat16"] = Field(
        "float32", description="numbers of the output-layer products; bfloat16 is faster where the hardware has it"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description=DROPOUT_HELP)

    @property
    def depth(self) -> int:
        return self.num_heads

    @property
    def states_a_token(self) -> int:
        return 1 if self.head_arch == "prefix-mlp" else 0  # the prefix layer reads whole texts

    def loss_settings(self) -> HydraTrainConfig:
        """The part that decides the loss."""
        return HydraTrainConfig(decay=self.decay, loss=self.loss, compute=self.compute, dropout=self.dropout)


#: `paper`: Hydra++, arXiv 2402.05109, section 4, and the published training script; a batch: 32 texts of 2,048 tokens.
#: `small`: Hydra++ for two cores and a small target.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {
            "head_arch": "prefix-mlp", "num_heads": 4, "num_blocks": 3, "shared_output": False, "draft_vocab": 0,
            "decay": 1.0, "loss": "soft", "dropout": 0.2,
        },
        "training": {
            "epochs": 10.0, "batch_tokens": 65536, "learning_rate": 5e-4, "final_fraction": 0.33, "weight_decay": 0.1,
        },
    },
    "small": {
        "drafter": {
            "head_arch": "prefix-mlp", "num_heads": 4, "num_blocks": 1, "shared_output": True, "draft_vocab": 8192,
            "decay": 0.8, "loss": "soft", "dropout": 0.0,
        },
        "training": {"epochs": 4.0, "batch_tokens": 1024, "learning_rate": 1e-3, "warmup_fraction": 0.05},
    },
}  # fmt: skip
