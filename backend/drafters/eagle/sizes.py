"""What an EAGLE head weighs and costs, counted from its settings. Knows no weights. Torch-free."""

from __future__ import annotations

from backend.drafters.eagle.config import EagleSettings
from backend.drafters.layer.sizes import pair_sizes
from backend.drafters.sizes import DrafterSizes, LayerWeights


def sizes(settings: EagleSettings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary, and layers like these."""
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    joined = 2 * hidden_size**2
    return pair_sizes(settings, hidden_size, rows, layer, joined, own_head=False, norms=hidden_size, reads=1)
