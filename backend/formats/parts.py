"""What an exporter is asked for and what it gives back. Knows no engine and no file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class ExportOptions:
    """How a drafter is written.

    Args:
        engine: vllm, sglang or hydra.
        speculators: write vLLM's EAGLE-3 in the speculators format.
        full_head: score the whole vocabulary, the tokens that can't be drafted with rows of zeros.
        embedding: write a copy of the target's embedding instead of sharing the target's.
        max_tokens: tokens drafted at a time; None: as deep as the drafter's tree.
    """

    engine: str
    speculators: bool = False
    full_head: bool = True
    embedding: bool = False
    max_tokens: int | None = None


@dataclass(frozen=True)
class Parts:
    """A folder before it is written.

    `notes`: what a person should know, whole sentences. `pickle`: name of a torch file instead of safetensors. `reads`:
    layers of the target whose input is read.
    """

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    notes: list[str] = field(default_factory=list)
    pickle: str | None = None
    reads: tuple[int, ...] = ()
