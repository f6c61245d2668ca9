"""Settings of n-gram lookup, as they stand in a form or a file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class NgramConfig(BaseModel):
    """How far to look and how much to propose."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_n: int = Field(
        3, ge=1, le=16, description="longest suffix looked up; shorter ones are tried when it never occurred"
    )
    min_n: int = Field(1, ge=1, le=16, description="shortest suffix looked up")
    num_tokens: int = Field(6, ge=1, le=32, description="tokens proposed after a match, as a chain")
