"""What MTP modules weigh and cost, counted from their settings. Knows no weights. Torch-free."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from backend.drafters.layer.sizes import FLOAT, pair_sizes
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.sizes import DrafterSizes, LayerWeights

KEPT: Final = 4  # of every trained number: itself, its gradient, two moments


def sizes(settings: MtpSettings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary, and layers like these."""
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    joined = 0 if settings.form == "parallel" else 2 * hidden_size**2
    norms = 4 * hidden_size
    trained = settings.model_copy(update={"test_time_steps": settings.loss_settings().steps})
    one = pair_sizes(trained, hidden_size, rows, layer, joined, own_head=False, norms=norms, reads=1)
    if settings.form == "shared":
        return one
    others = (settings.draft_depth - 1) * (layer.all + joined + norms)  # every depth has weights of its own
    return replace(one, parameters=one.parameters + others, fixed_bytes=one.fixed_bytes + FLOAT * KEPT * others)
