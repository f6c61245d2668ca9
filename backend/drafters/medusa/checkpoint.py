"""Medusa heads to and from a drafter folder. Knows the tensors' names, not how they were trained."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta, check_tensors, read_folder, write_folder
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.errors import HeadwayError


def save_heads(folder: Path, heads: MedusaHeads, meta: DrafterMeta, dtype: torch.dtype = torch.float32) -> None:
    """Write heads; float16 halves the size at a loss far below what training noise leaves. Raises HeadwayError."""
    tensors = {name: _to(tensor, dtype) for name, tensor in heads.state_dict().items()}
    overflowed = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if overflowed:
        raise HeadwayError(
            f"The heads' {overflowed[0]} holds numbers that {dtype} can't; train again or store float32."
        )
    write_folder(folder, meta.model_copy(update={"family": "medusa", "config": heads.config.model_dump()}), tensors)


def load_heads(folder: Path) -> tuple[DrafterMeta, MedusaHeads]:
    """Read heads in float32 on the CPU; every tensor is checked. Raises HeadwayError."""
    meta, tensors = read_folder(folder)
    try:
        config = MedusaConfig.model_validate(meta.config)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise HeadwayError(f"The drafter {folder} has a setting Headway does not know or accept: {where}.") from None
    heads = MedusaHeads(config)
    expected = {name: tensor.shape for name, tensor in heads.state_dict().items()}
    check_tensors(folder, tensors, expected)
    tokens = tensors["token_map"]
    inside = (tokens >= 0) & (tokens < config.vocab_size)
    if tokens.dtype != torch.int64 or not bool(inside.all()) or len(tokens.unique()) != len(tokens):
        raise HeadwayError(f"The drafter {folder} has a damaged token map; copy or train it again.")
    heads.load_state_dict(tensors)  # copies, and turns half precision into float32
    return meta, heads


def _to(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
