"""The modules: norm the state, norm the token's embedding, join both, run one decoder layer, norm, score with the
target's own head.

Embedding and output rows are the target's, frozen and not saved. As a `PairModel` the first module is used for every
depth, which is the shared form; the other forms go through `layers` (drafter.py, train.py). Knows no tree and no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from backend.drafters.layer.attention import DraftLayer, rotated
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.mtp.config import MtpConfig
from backend.targets.packed_linear import PackedFrom, pack_linear
from backend.targets.target import FINAL, Target


class MtpLayer(DraftLayer):
    """A decoder layer that may have biases and norms in its attention, and may rotate a part of each head only."""

    def __init__(self, config: MtpConfig) -> None:
        shape = config.layer
        super().__init__(shape, shape.hidden_size)
        self.rotary_dim = config.rotary_dim or shape.head_dim
        if config.attention_bias:
            for name in ("q_proj", "k_proj", "v_proj"):
                plain = cast(nn.Linear, getattr(self, name))
                setattr(self, name, nn.Linear(plain.in_features, plain.out_features))
        self.q_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_norm_eps) if config.qk_norm else nn.Identity()

    def query(self, inputs: Tensor, positions: Tensor) -> Tensor:
        return self._rotated(self.q_norm(self._heads(self.q_proj(inputs))), positions)

    def key_value(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        keys = self._rotated(self.k_norm(self._heads(self.k_proj(inputs))), positions)
        return keys, self._heads(self.v_proj(inputs))

    def _rotated(self, heads: Tensor, positions: Tensor) -> Tensor:
        turned = rotated(heads[..., : self.rotary_dim], positions, self.shape.rope_theta)
        return torch.cat([turned, heads[..., self.rotary_dim :]], dim=-1)


class MtpModule(nn.Module):
    """One module; without `embed_norm`, `hidden_norm` and `proj` in the parallel form, which reads no token."""

    def __init__(self, config: MtpConfig) -> None:
        super().__init__()
        self.config = config
        width, eps = config.layer.hidden_size, config.layer.rms_norm_eps
        if config.form != "parallel":
            self.embed_norm = nn.RMSNorm(width, eps=eps)
            self.hidden_norm = nn.RMSNorm(width, eps=eps)
            self.proj = nn.Linear(2 * width, width, bias=False)
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.layer = MtpLayer(config)
        self.norm = nn.RMSNorm(width, eps=eps)

    def join(self, feature: Tensor, words: Tensor | None) -> tuple[Tensor, Tensor]:
        """States [B, T, H] and embeddings [B, T, H] -> (what is projected, residual), both [B, T, H]."""
        if words is not None:
            parts = [self.embed_norm(words), self.hidden_norm(feature)]
            if self.config.order == "hidden_first":
                parts.reverse()
            feature = self.proj(torch.cat(parts, dim=-1))
        return self.input_layernorm(feature), feature

    def recycled(self, output: Tensor) -> Tensor:
        """What leaves the layer -> what the next depth reads."""
        state: Tensor = self.norm(output) if self.config.recycle_normed else output
        return state


class MtpModel(PairModel):
    """See PairModel. What leaves a module of the other forms is handed about after its norm, see `scored`."""

    config: MtpConfig
    head_rows: Tensor

    def __init__(self, config: MtpConfig) -> None:
        super().__init__()
        self.config, self.reads = config, (FINAL,)
        self.layers = nn.ModuleList(MtpModule(config) for _ in range(config.num_modules))
        self.packed_head: nn.Module | None = None
        self.register_buffer("token_map", torch.arange(config.output_size))

    @property
    def parts(self) -> Sequence[MtpModule]:
        return cast(Sequence[MtpModule], self.layers)

    @property
    def layer(self) -> DraftLayer:  # type: ignore[override]  # of the modules, none is the one by name
        return self.parts[0].layer

    def hold_target(self, target: Target) -> None:
        """Use the target's embedding, and its output rows of the token map."""
        self.hold_embedding(target.embedding_weight().float())
        self.register_buffer("head_rows", Teacher.of(target, self.token_map).rows, persistent=False)

    def share(self, embedding: Tensor, head: Tensor) -> None:
        super().share(embedding, head)
        self.head_rows = head[self.token_map]

    def for_drafting(self, packed_from: PackedFrom | None = None) -> MtpModel:
        twin = super().for_drafting(packed_from)
        assert isinstance(twin, MtpModel)
        twin.packed_head = pack_linear(twin.head_rows, None, packed_from)
        return twin

    def feature(self, states: Tensor) -> Tensor:
        return states.to(self.embedding.dtype)

    def join(self, feature: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.parts[0].join(feature, self.embed(tokens))

    def recycled(self, output: Tensor) -> Tensor:
        return self.parts[0].recycled(output)

    def scored(self, output: Tensor) -> Tensor:
        """In the shared form what leaves the layer is normed here; the others have normed it with their own norm."""
        normed: Tensor = self.parts[0].norm(output) if self.config.form == "shared" else output
        return normed

    def output_rows(self) -> Tensor:
        return self.head_rows

    def scores(self, output: Tensor) -> Tensor:
        if self.packed_head is None:
            return super().scores(output)
        scores: Tensor = self.packed_head(self.scored(output))
        return scores


def seen_by(columns: Tensor, keys: Tensor, module: int) -> Tensor:
    """Which key columns module number `module` (from 0) lets a query look at: columns int64 [.., T], keys int64 [S]
    -> bool [.., T, S].

    Column i of module m has read the tokens up to i + m + 1. While drafting from the column before the root, the m
    columns before it would hold drafted tokens; a module looks past them, in training too, so that what it has read of
    committed text never changes. What those tokens were, its own column's state tells. For the first two modules this
    is plain causal attention.
    """
    inside = keys >= 0
    return inside & ((keys <= columns[..., None] - module) | (keys == columns[..., None]))
