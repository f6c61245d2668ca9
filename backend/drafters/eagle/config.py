"""Shape of an EAGLE head, as it stands in a checkpoint. Knows no weights."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from backend.drafters.layer.attention import LayerShape


class EagleConfig(BaseModel):
    """What has to be known to build the head before its weights are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: LayerShape
    vocab_size: int = Field(ge=1, description="the target's vocabulary")
    draft_vocab_size: int | None = Field(
        8192, ge=1, description="rows of the target's head that are scored; none: the whole vocabulary"
    )

    @property
    def output_size(self) -> int:
        """Vd: tokens that can be drafted."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size
