"""A P-EAGLE head to and from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

import torch

from backend.drafters.checkpoint import DrafterMeta, read_model, write_model
from backend.drafters.peagle.config import PeagleConfig
from backend.drafters.peagle.model import PeagleHead


def save_head(folder: Path, head: PeagleHead, meta: DrafterMeta, dtype: torch.dtype = torch.float32) -> None:
    """Write a head; see write_model. The embedding is the target's and not written."""
    write_model(folder, "peagle", head.config, head, meta, dtype)


def load_head(folder: Path) -> tuple[DrafterMeta, PeagleHead]:
    """Read a head; see read_model. It needs the target's embedding before it can draft."""
    return read_model(folder, PeagleConfig, PeagleHead)
