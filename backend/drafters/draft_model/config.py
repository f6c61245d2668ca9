"""Settings of a separate draft model, as they stand in a form or a file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DraftModelConfig(BaseModel):
    """Which model drafts and how deep when no tree is named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, description="built-in name, folder, GGUF file or hub id")
    depth: int = Field(4, ge=1, le=32, description="tokens drafted a step, as a chain, when no tree is named")
