"""MTP modules to and from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

import torch

from backend.drafters.checkpoint import DrafterMeta, read_model, write_model
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel


def save_modules(folder: Path, model: MtpModel, meta: DrafterMeta, dtype: torch.dtype = torch.float32) -> None:
    """Write modules; see write_model. Embedding and output head are the target's and not written."""
    write_model(folder, "mtp", model.config, model, meta, dtype)


def load_modules(folder: Path) -> tuple[DrafterMeta, MtpModel]:
    """Read modules; see read_model. They need the target's embedding and head before they can draft."""
    return read_model(folder, MtpConfig, MtpModel)
