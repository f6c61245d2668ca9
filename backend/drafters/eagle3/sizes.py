"""What an EAGLE-3 head weighs and costs, counted from its settings. Knows no weights. Torch-free."""

from __future__ import annotations

from backend.drafters.eagle3.config import LAYERS, Eagle3Settings
from backend.drafters.layer.sizes import pair_sizes
from backend.drafters.sizes import DrafterSizes, LayerWeights


def sizes(settings: Eagle3Settings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary, and layers like these."""
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    reads = LAYERS if settings.reads is None else len(settings.reads)
    joined = reads * hidden_size**2 + layer.qkv  # queries, keys and values read two widths instead of one
    norms = 4 * hidden_size + reads * hidden_size * (settings.fc_norm or settings.norm_before_fc)
    return pair_sizes(settings, hidden_size, rows, layer, joined, own_head=True, norms=norms, reads=reads)
