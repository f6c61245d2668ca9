"""The EAGLE-3 head: joins three layers of the target, runs one decoder layer, scores a reduced vocabulary.

Tensor names follow the published layout, so that exporting renames nothing. Knows no tree and no loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.layer.attention import DraftLayer
from backend.drafters.layer.pair_model import PairModel

EXTREME = 16.0  #: times the usual size: states larger than this are an attention sink's


class Eagle3Head(PairModel):
    """See PairModel. The output rows are the head's own and trained; the embedding is the target's.

    state_scale: float [layers], powers of two. The middle layers of some targets hold states in the thousands (an
    attention sink at the first token), and layers differ in size; a constant for each brings their usual states to like
    size. It is linear, so exporting folds it into `fc`. Where the states are normed anyway it is 1.

    usual_size: float [layers], the usual root mean square of the states that are read; in training only, not saved.
    """

    config: Eagle3Config
    state_scale: Tensor
    usual_size: Tensor

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, self.reads = config, config.reads
        width, eps = config.layer.hidden_size, config.layer.rms_norm_eps
        joined = len(config.reads) * config.target_hidden_size
        self.input_norm = nn.RMSNorm(joined, eps=eps) if config.norm_before_fc else None
        self.fc_norm = nn.ModuleList(
            nn.RMSNorm(config.target_hidden_size, eps=eps) for _ in config.reads if config.fc_norm
        )
        self.fc = nn.Linear(joined, width, bias=False)
        self.hidden_norm = nn.RMSNorm(width, eps=eps)
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.layer = DraftLayer(config.layer, 2 * width)
        self.norm = nn.RMSNorm(width, eps=eps)
        self.lm_head = nn.Linear(width, config.draft_vocab_size, bias=False)
        self.register_buffer("state_scale", torch.ones(len(config.reads)))
        self.hold_sizes([float("inf")] * len(config.reads))
        self.register_buffer("token_map", torch.arange(config.draft_vocab_size))

    def feature(self, states: Tensor) -> Tensor:
        parts = self._scaled(states.to(self.embedding.dtype))
        if self.fc_norm:
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts.unbind(-2), strict=True)]
            parts = torch.stack(normed, dim=-2)
        joined: Tensor = parts.flatten(-2)
        if self.input_norm is not None:
            joined = self.input_norm(joined)
        feature: Tensor = self.fc(joined)
        return feature

    def hold_sizes(self, sizes: Sequence[float]) -> None:
        """Say what is usual for the states of each layer, so that what is not can be told; see `extreme`."""
        self.register_buffer("usual_size", torch.tensor(sizes, dtype=torch.float32), persistent=False)

    def extreme(self, states: Tensor) -> Tensor:
        sizes = states.float().unflatten(-1, (len(self.reads), -1)).square().mean(-1).sqrt()  # [.., layers]
        extreme: Tensor = (sizes > EXTREME * self.usual_size).any(-1)
        return extreme

    def _scaled(self, states: Tensor) -> Tensor:
        """[.., F] -> [.., layers, Ht]."""
        parts: Tensor = states.unflatten(-1, (len(self.reads), -1))
        return parts * self.state_scale[:, None].to(states.dtype)

    def join(self, feature: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.hidden_norm(feature)
        inputs = torch.cat([self.input_layernorm(self.embed(tokens)), normed], dim=-1)
        return inputs, normed if self.config.norm_before_residual else feature

    def recycled(self, output: Tensor) -> Tensor:
        return self.scored(output) if self.config.norm_output else output

    def scored(self, output: Tensor) -> Tensor:
        normed: Tensor = self.norm(output)
        return normed

    def output_rows(self) -> Tensor:
        return self.lm_head.weight

    def scores(self, output: Tensor) -> Tensor:
        scores: Tensor = self.lm_head(self.scored(output))  # through the module, which may be packed
        return scores
