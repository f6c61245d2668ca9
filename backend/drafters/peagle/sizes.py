"""What a P-EAGLE head weighs and costs, counted from its settings. Knows no weights. Torch-free."""

from __future__ import annotations

from backend.drafters.eagle3.config import LAYERS
from backend.drafters.layer.config import PairSettings
from backend.drafters.layer.sizes import pair_sizes
from backend.drafters.peagle.config import PeagleSettings
from backend.drafters.sizes import DrafterSizes, LayerWeights


def sizes(settings: PeagleSettings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary, and layers like these. Places that are dropped in training don't
    count.
    """
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    reads = LAYERS if settings.reads is None else len(settings.reads)
    joined = reads * hidden_size**2 + layer.qkv  # queries, keys and values of the first layer read two widths
    norms = (3 + settings.num_layers + reads) * hidden_size
    kept = sum(max(settings.kept_places**depth, settings.kept_least) for depth in range(settings.draft_depth))
    alike = PairSettings(family="peagle", test_time_steps=max(1, round(kept)), draft_depth=settings.draft_depth)
    stack = LayerWeights(settings.num_layers * layer.all, layer.qkv)
    return pair_sizes(alike, hidden_size, rows, stack, joined, own_head=True, norms=norms, reads=reads)
