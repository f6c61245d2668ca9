"""Medusa heads to and from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

import torch

from backend.drafters.checkpoint import DrafterMeta, read_model, write_model
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads


def save_heads(folder: Path, heads: MedusaHeads, meta: DrafterMeta, dtype: torch.dtype = torch.float32) -> None:
    """Write heads; see write_model."""
    write_model(folder, "medusa", heads.config, heads, meta, dtype)


def load_heads(folder: Path) -> tuple[DrafterMeta, MedusaHeads]:
    """Read heads; see read_model."""
    return read_model(folder, MedusaConfig, MedusaHeads)
