"""An EAGLE head from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

from backend.drafters.checkpoint import DrafterMeta, read_model
from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle.model import EagleHead


def load_head(folder: Path) -> tuple[DrafterMeta, EagleHead]:
    """Read a head; see read_model. It needs the target's embedding and output rows before it can draft."""
    return read_model(folder, EagleConfig, EagleHead)
