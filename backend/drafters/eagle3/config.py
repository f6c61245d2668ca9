"""Shape of an EAGLE-3 head, as it stands in a checkpoint, and the settings it is trained with. Knows no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.drafters.family import Preset
from backend.drafters.layer.config import LayerShape, PairSettings

LAYERS = 3  #: how many of the target's layers are read where nobody names them


def default_layers(num_layers: int) -> tuple[int, ...]:
    """Low, middle and high layer whose inputs are read: 2, L // 2 and L - 3, as published; fewer in shallow targets."""
    return tuple(sorted({min(2, num_layers - 1), num_layers // 2, max(num_layers - 3, 1)}))


class Eagle3Config(BaseModel):
    """What has to be known to build the head before its weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: LayerShape
    target_hidden_size: int = Field(ge=1, description="width of the target's hidden state")
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    draft_vocab_size: int = Field(8192, ge=1, description="tokens the head can draft, the most frequent ones")
    reads: tuple[int, ...] = Field(min_length=1, description="layers of the target whose input is read, low to high")
    norm_output: bool = Field(False, description="recycle the state after the final norm instead of before it")
    norm_before_residual: bool = Field(False, description="take the residual after the norm of the feature")
    norm_before_fc: bool = Field(False, description="norm the joined states of all layers together")
    fc_norm: bool = Field(False, description="norm each layer's states before they are joined")


class Eagle3Settings(PairSettings):
    """What a person chooses when an EAGLE-3 head is trained; the rest of Eagle3Config follows from the target."""

    family: Literal["eagle3"] = Field("eagle3", description="kind of drafter")
    reads: tuple[Annotated[int, Field(ge=0, le=1024)], ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="layers of the target whose input is read, with commas; default: 2, the middle one and L - 3",
    )
    norm_output: bool = Field(False, description="recycle the state after the final norm instead of before it")
    norm_before_residual: bool = Field(False, description="take the residual after the norm of the feature")
    norm_before_fc: bool = Field(False, description="norm the joined states of all layers together")
    fc_norm: bool = Field(False, description="norm each layer's states before they are joined")

    @model_validator(mode="after")
    def _one_norm(self) -> Self:
        if self.norm_before_fc and self.fc_norm:
            raise ValueError("norm_before_fc and fc_norm exclude each other; leave one of them off")
        if self.reads is not None and list(self.reads) != sorted(set(self.reads)):
            raise ValueError("the layers that are read must stand once each, from low to high")
        return self

    @property
    def states_a_token(self) -> int:
        return 1 + (LAYERS if self.reads is None else len(self.reads))

    def layers_read(self, num_layers: int) -> frozenset[int]:
        return frozenset(self.reads or default_layers(num_layers))


#: `paper`: arXiv 2503.01840 and the published training script; its linear schedule is half a cosine here.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": {
        "drafter": {"draft_vocab": 32000, "test_time_steps": 7, "loss": "soft", "decay": 0.8, "draft_depth": 7},
        "training": {
            "epochs": 40.0, "batch_tokens": 4096, "learning_rate": 5e-5, "warmup_fraction": 0.015, "beta_1": 0.9,
            "beta_2": 0.95, "gradient_clip": 0.5,
        },
    },
    "small": {
        "drafter": {"draft_vocab": 8192, "test_time_steps": 4, "loss": "soft", "decay": 0.8, "draft_depth": 4},
        "training": {"epochs": 4.0, "batch_tokens": 1024, "learning_rate": 5e-4, "warmup_fraction": 0.03},
    },
}  # fmt: skip
