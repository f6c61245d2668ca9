"""The EAGLE-3 head: joins three layers of the target, runs one decoder layer, scores a reduced vocabulary.

Tensor names follow the published layout, so that exporting renames nothing. Knows no tree and no loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.layer.attention import DraftLayer
from backend.drafters.layer.pair_model import PairModel


class Eagle3Head(PairModel):
    """See PairModel. The output rows are the head's own and trained; the embedding is the target's.

    state_scale: the middle layers of some targets hold states in the thousands (an attention sink at the first token);
    a constant for each layer brings all to like size. It is linear, so exporting folds it into `fc`.
    """

    state_scale: Tensor

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, self.reads = config, config.reads
        width, eps = config.layer.hidden_size, config.layer.rms_norm_eps
        self.fc = nn.Linear(len(config.reads) * config.target_hidden_size, width, bias=False)
        self.fc_norms = nn.ModuleList(
            nn.RMSNorm(config.target_hidden_size, eps=eps) for _ in config.reads if config.fc_norm
        )
        self.hidden_norm = nn.RMSNorm(width, eps=eps)
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.layer = DraftLayer(config.layer, 2 * width)
        self.norm = nn.RMSNorm(width, eps=eps)
        self.lm_head = nn.Linear(width, config.draft_vocab_size, bias=False)
        scale = torch.tensor(config.state_scales).repeat_interleave(config.target_hidden_size)
        self.register_buffer("state_scale", scale, persistent=False)
        self.register_buffer("token_map", torch.arange(config.draft_vocab_size))

    def feature(self, states: Tensor) -> Tensor:
        scaled = states.to(self.embedding.dtype) * self.state_scale
        if self.fc_norms:
            parts = scaled.split(self.config.target_hidden_size, dim=-1)
            scaled = torch.cat([norm(part) for norm, part in zip(self.fc_norms, parts, strict=True)], dim=-1)
        joined: Tensor = self.fc(scaled)
        return joined

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
