"""Hydra++'s prefix layer: one more decoder layer over the target's last hidden states, with a norm behind it.

What leaves it at position t has looked at all states up to t; the heads read it in the place of the target's own state
(Hydra, arXiv 2402.05109, section 4.2). Knows no head and no loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from backend.drafters.layer.attention import KeyBlock, OrdinaryLayer, attend
from backend.drafters.layer.cache import LayerCache
from backend.drafters.layer.config import LayerShape
from backend.drafters.layer.fresh import Fresh, read_newest
from backend.drafters.layer.starting import draw_weights


class PrefixLayer(OrdinaryLayer):
    """Every state is a column: its key and value, once cached, never change."""

    def __init__(self, shape: LayerShape) -> None:
        super().__init__(shape)
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)

    @torch.no_grad()
    def initialise(self, usual_size: float, seed: int = 0) -> None:
        """At first states are handed on, brought to one size: `usual_size`, the usual root mean square of the target's.

        What attention and feed-forward part add begins at zero, as both end in matrices of zeros.
        """
        draw_weights(self, seed)
        self.layer.o_proj.weight.zero_()
        self.layer.down_proj.weight.zero_()
        self.norm.weight.fill_(usual_size)

    def forward(self, states: Tensor) -> Tensor:
        """Whole texts: states [B, T, H] -> what leaves the norm at each, [B, T, H]. Causal."""
        layer, columns = self.layer, torch.arange(states.shape[1], device=states.device)[None]
        inputs = self.input_layernorm(states)
        seen = (columns <= columns[0, :, None])[None]  # [1, T, T]
        block = KeyBlock(*layer.key_value(inputs, columns), seen)
        found: Tensor = self.norm(layer.finish(states, attend(layer.query(inputs, columns), [block])))
        return found

    def newest(self, cache: LayerCache, rows: slice, fresh: Fresh) -> Tensor:
        """The same with a cache: add columns, and return what leaves the norm at each row's last one, [B, H]."""
        states = fresh.states.to(self.norm.weight.dtype)
        output, _ = read_newest(self.layer, cache, rows, fresh, self.input_layernorm(states), states)
        normed: Tensor = self.norm(output)
        return normed[:, 0]

    def remember(self, cache: LayerCache, rows: slice, fresh: Fresh) -> None:
        """Add columns only."""
        states = fresh.states.to(self.norm.weight.dtype)
        cache.write(rows, fresh.columns, *self.layer.key_value(self.input_layernorm(states), fresh.columns))
