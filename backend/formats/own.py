"""Headway's own drafters as this package sees them: config, weights and what to draft with. Knows no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from backend.drafters.checkpoint import DrafterMeta, read_meta, read_model
from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle.model import EagleHead
from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.hydra.config import HydraConfig
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.layer.config import LayerShape
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel
from backend.errors import HeadwayError
from backend.formats.tables import Sizes
from backend.trees import TreeShape, chain

USUAL_DEPTH: Final = 4  #: of a chain, where a drafter stores no tree and has no heads to count

MODELS: Final[Mapping[str, tuple[type[BaseModel], Callable[[Any], nn.Module]]]] = {
    "medusa": (MedusaConfig, MedusaHeads),
    "hydra": (HydraConfig, HydraHeads),
    "eagle": (EagleConfig, EagleHead),
    "eagle3": (Eagle3Config, Eagle3Head),
    "mtp": (MtpConfig, MtpModel),
}


@dataclass(frozen=True)
class Own:
    """A drafter of Headway: float32 weights on the CPU. `stored`: the dtype they were stored in."""

    meta: DrafterMeta
    config: Any
    state: dict[str, Tensor]
    stored: torch.dtype

    @property
    def family(self) -> str:
        return self.meta.family

    @property
    def shape(self) -> TreeShape:
        """The tree it was made to fill; else a chain."""
        if self.meta.tree:
            return TreeShape(tuple(tuple(path) for path in self.meta.tree))
        depth = getattr(self.config, "num_heads", None) or USUAL_DEPTH
        if self.family == "mtp" and self.config.form != "shared":
            depth = self.config.num_modules
        return chain(int(depth))


def read_own(folder: Path) -> Own:
    """Read a drafter folder. Raises HeadwayError for one that is damaged or of a family without any format."""
    meta = read_meta(folder)
    if meta.family not in MODELS:
        raise HeadwayError(f"{folder} holds a drafter of the family {meta.family!r}, which has no exchange format.")
    config_class, build = MODELS[meta.family]
    meta, model = read_model(folder, config_class, build)
    return Own(meta, model.config, dict(model.state_dict()), _stored_dtype(folder))


def _stored_dtype(folder: Path) -> torch.dtype:
    from safetensors import safe_open

    from backend.drafters.checkpoint import WEIGHTS

    with safe_open(folder / WEIGHTS, framework="pt") as file:
        floats = [file.get_tensor(name).dtype for name in file.keys()]  # noqa: SIM118  # no mapping
    return next((dtype for dtype in floats if dtype.is_floating_point), torch.float32)


def sorted_map(state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """(target tokens in rising order int64 [Vd], which draft token each is int64 [Vd]): engines' maps rise."""
    tokens, order = state["token_map"].sort()
    return tokens, order


def sizes_of_layer(layer: LayerShape, vocabulary: int, drafted: int, **more: Any) -> Sizes:
    return Sizes(
        width=layer.hidden_size, vocabulary=vocabulary, draft_vocabulary=drafted, inner=layer.intermediate_size,
        query_heads=layer.num_heads, kv_heads=layer.num_kv_heads, head_dim=layer.head_dim,
        **{"target_width": layer.hidden_size, **more},
    )  # fmt: skip
