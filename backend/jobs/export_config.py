"""What an export is told. Torch-free."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from backend.jobs.configs import Name, Text

EngineName = Literal["vllm", "sglang", "hydra", "own"]
ExportDtype = Literal["stored", "float32", "bfloat16", "float16"]


class ExportJobConfig(BaseModel):
    """One drafter, written as one engine reads it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    drafter: Text = Field(description="the folder of a trained drafter, or builtin-medusa")
    engine: EngineName = Field(description="who will read it; own: Headway itself")
    target: Text | None = Field(None, description="the target it was trained for; not needed for own")
    out: Text | None = Field(
        None,
        description="folder to write, whole or not at all; default: DRAFTER-ENGINE among the home folder's exports",
    )
    tuned: Text | None = Field(
        None, description="what `tune-tree` wrote, or its job's id: the tree to serve; default: the drafter's own"
    )
    num_tokens: int | None = Field(
        None, ge=1, le=64, description="tokens drafted at a time; default: the depth of the tree"
    )
    speculators: bool = Field(False, description="EAGLE-3 for vllm in the speculators format")
    full_head: bool = Field(
        True, description="Medusa: score the whole vocabulary; off: a token map, which vLLM 0.32 reads and then refuses"
    )
    embedding: bool = Field(False, description="write a copy of the target's embedding too")
    dtype: ExportDtype = Field("stored", description="numbers of the weights; stored: as the drafter has them")
    force: bool = Field(False, description="export for a target of another version all the same")
    name: Name | None = Field(None, description="name of the export; default: made of drafter and engine")

    @property
    def device(self) -> str:
        """Where it is worked on: the target's weights are only read."""
        return "cpu"
