"""What measuring a cost curve is told. Torch-free."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from backend.jobs.configs import Name, TargetConfig, Text

Batch = Annotated[int, Field(ge=1, le=256)]
Context = Annotated[int, Field(ge=1, le=1_000_000)]


class CostJobConfig(TargetConfig):
    """Times of target passes by rows, batch and context, and of a drafter's steps, on this device."""

    drafter: Text = Field("builtin-medusa", description="whose drafting is timed; none: only the target's passes")
    batches: tuple[Batch, ...] = Field((1, 2, 4, 8), min_length=1, description="sequences at once, with commas")
    contexts: tuple[Context, ...] = Field((128, 512), min_length=1, description="tokens before the tree, with commas")
    max_rows: int = Field(64, ge=2, le=64, description="longest pass over one sequence, root included")
    seconds: float = Field(180.0, gt=0, le=36_000, description="how long to measure, loading not counted")
    memory_gb: float | None = Field(
        None, gt=0, description="memory that the cache may take; default: half of what is free"
    )
    seed: int = Field(0, ge=0, description="same seed, same tokens")
    force: bool = Field(False, description="time heads of another version all the same, labelled")
    out: Text | None = Field(None, description="also write the curve to this file")
    name: Name | None = Field(None, description="name of the curve; default: made of drafter and target")
