"""Shape of an EAGLE-3 head, as it stands in a checkpoint. Knows no weights."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.layer.attention import LayerShape


class Eagle3Config(BaseModel):
    """What has to be known to build the head before its weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: LayerShape
    target_hidden_size: int = Field(ge=1, description="width of the target's hidden state")
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    draft_vocab_size: int = Field(8192, ge=1, description="tokens the head can draft, the most frequent ones")
    reads: tuple[int, ...] = Field(min_length=1, description="layers of the target whose input is read, low to high")
    state_scales: tuple[float, ...] = Field(
        min_length=1, description="each layer's states are multiplied by this, so that they are of like size"
    )
    norm_output: bool = Field(False, description="recycle the state after the final norm instead of before it")
    norm_before_residual: bool = Field(False, description="take the residual after the norm of the feature")
    fc_norm: bool = Field(False, description="norm each layer's states before they are joined")
