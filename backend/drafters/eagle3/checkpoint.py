"""An EAGLE-3 head from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

from backend.drafters.checkpoint import DrafterMeta, read_model
from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.eagle3.model import Eagle3Head


def load_head(folder: Path) -> tuple[DrafterMeta, Eagle3Head]:
    """Read a head; see read_model. It needs the target's embedding before it can draft."""
    return read_model(folder, Eagle3Config, Eagle3Head)
