"""Hydra heads to and from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

import torch

from backend.drafters.checkpoint import DrafterMeta, read_model, write_model
from backend.drafters.hydra.config import HydraConfig
from backend.drafters.hydra.model import HydraHeads


def save_heads(folder: Path, heads: HydraHeads, meta: DrafterMeta, dtype: torch.dtype = torch.float32) -> None:
    """Write heads; see write_model. The embedding is the target's and not written."""
    write_model(folder, "hydra", heads.config, heads, meta, dtype)


def load_heads(folder: Path) -> tuple[DrafterMeta, HydraHeads]:
    """Read heads; see read_model. They need the target's embedding before they can draft."""
    return read_model(folder, HydraConfig, HydraHeads)
