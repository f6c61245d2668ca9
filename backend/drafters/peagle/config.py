"""Shape of a P-EAGLE head, as it stands in a checkpoint, and the settings it is trained with. Torch-free; knows no
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from backend.drafters.eagle3.config import LAYERS, Eagle3Config, default_layers
from backend.drafters.family import FamilySettings, Preset
from backend.drafters.layer.config import LOSS_HELP, LossName, PairTrainConfig

KEEP_HELP = "part of the places kept from one depth to the next while training, so that deep ones cost less; 1: all"


class PeagleConfig(Eagle3Config):
    """What has to be known to build the head before its weights are read."""

    num_layers: int = Field(1, ge=1, le=16, description="decoder layers on top of each other")
    num_positions: int = Field(4, ge=1, le=32, description="tokens drafted in one pass")
    mask_token_id: int = Field(0, ge=0, description="token whose embedding stands where no token is known yet")


class PeagleTrainConfig(PairTrainConfig):
    """What of its training is not the loop's."""

    kept_places: float = Field(0.7, gt=0, le=1, description=KEEP_HELP)
    kept_least: float = Field(0.2, ge=0, le=1, description="part of the places kept at every depth")


class PeagleSettings(FamilySettings):
    """What a person chooses when a head is trained; the rest of PeagleConfig follows from the target."""

    family: Literal["peagle"] = Field("peagle", description="kind of drafter")
    draft_depth: int = Field(4, ge=1, le=16, description="tokens drafted in one pass")
    num_layers: int = Field(1, ge=1, le=8, description="decoder layers on top of each other")
    reads: tuple[Annotated[int, Field(ge=0, le=1024)], ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="layers of the target whose input is read, with commas; default: 2, the middle one and L - 3",
    )
    loss: LossName = Field("soft", description=LOSS_HELP)
    decay: float = Field(0.8, gt=0, le=1, description="depth d's loss counts decay^(d - 1)")
    kept_places: float = Field(0.7, gt=0, le=1, description=KEEP_HELP)
    kept_least: float = Field(0.2, ge=0, le=1, description="part of the places kept at every depth")
    compute: Literal["float32", "bfloat16"] = Field(
        "float32", description="numbers of the output-layer products; bfloat16 is faster where the hardware has it"
    )

    @property
    def depth(self) -> int:
        return self.draft_depth

    @property
    def states_a_token(self) -> int:
        return 1 + (LAYERS if self.reads is None else len(self.reads))

    def layers_read(self, num_layers: int) -> frozenset[int]:
        return frozenset(self.reads or default_layers(num_layers))

    def loss_settings(self) -> PeagleTrainConfig:
        """The part that decides the loss."""
        return PeagleTrainConfig(
            steps=self.draft_depth,
            depth=self.draft_depth,
            decay=self.decay,
            loss=self.loss,
            compute=self.compute,
            kept_places=self.kept_places,
            kept_least=self.kept_least,
        )


#: `paper`: the values of the speculators library, which publishes such heads: eight depths, four layers. `small` suits
#: two cores and a small target.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {
            "draft_depth": 8, "num_layers": 4, "draft_vocab": 32000, "loss": "kl", "decay": 1.0, "kept_places": 0.7,
            "kept_least": 0.2,
        },
        "training": {"epochs": 20.0, "batch_tokens": 8192, "learning_rate": 1e-4, "warmup_fraction": 0.03},
    },
    "small": {
        "drafter": {
            "draft_depth": 4, "num_layers": 1, "draft_vocab": 8192, "loss": "soft", "decay": 0.8, "kept_places": 0.7,
            "kept_least": 0.2,
        },
        "training": {"epochs": 4.0, "batch_tokens": 1024, "learning_rate": 5e-4, "warmup_fraction": 0.03},
    },
}  # fmt: skip
