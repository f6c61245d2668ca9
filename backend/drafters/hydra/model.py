"""The heads: head k joins the target's last hidden state, or what a prefix layer makes of it, with the embeddings of
the root and of the k tokens drafted after it.

Knows no tree and no loss. The embedding is the target's, frozen; it is held but not saved.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from backend.drafters.hydra.config import HydraConfig
from backend.drafters.hydra.prefix import PrefixLayer
from backend.targets.packed_linear import PackedFrom, pack_linear, pack_model


class HydraHeads(nn.Module):
    """K heads. An untrained head hands the hidden state on as it is, so it guesses what the target's own head would.

    Attributes: token_map int64 [Vd], target token of each draft token; embedding [V, H]; output [1 or K, Vd, H];
    output_bias [1 or K, Vd] or None; prefix: Hydra++'s layer, or None; dropout: between a head's layers, in training.
    """

    token_map: Tensor
    embedding: Tensor
    output_bias: Tensor | None

    def __init__(self, config: HydraConfig) -> None:
        super().__init__()
        self.config = config
        heads, width = config.num_heads, config.hidden_size
        self.joins = nn.ModuleList(nn.Linear((k + 2) * width, width) for k in range(heads))
        self.residuals = nn.ModuleList(
            nn.Linear((k + 2) * width, width) for k in range(heads) if config.residual == "linear"
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(config.num_blocks)) for _ in range(heads)
        )
        self.output = nn.Parameter(torch.zeros(config.output_layers, config.output_rows, width))
        bias = nn.Parameter(torch.zeros(config.output_layers, config.output_rows)) if config.output_bias else None
        self.register_parameter("output_bias", bias)
        self.prefix = None if config.prefix is None else PrefixLayer(config.prefix)
        self.dropout = 0.0
        self.register_buffer("token_map", torch.arange(config.output_rows))
        self._packed: list[nn.Module] = []

    @torch.no_grad()
    def initialise(self, lm_head: Tensor, token_map: Tensor | None, seed: int = 0, usual_size: float = 1.0) -> None:
        """Output rows copied from the target's LM head [V, H]; blocks at zero, joins near zero but not dead.

        usual_size: the usual root mean square of the target's last hidden states; only a prefix layer asks for it.
        """
        generator = torch.Generator().manual_seed(seed)
        if token_map is not None:
            self.token_map.copy_(token_map)
        self.output.copy_(lm_head[self.token_map.to(lm_head.device)].to(self.output).expand_as(self.output))
        for join in self.joins:
            assert isinstance(join, nn.Linear)
            join.weight.copy_(torch.randn(join.weight.shape, generator=generator) * 0.002)
            join.bias.zero_()
        for block in self.blocks.modules():
            if isinstance(block, nn.Linear):
                block.weight.zero_()
                block.bias.zero_()
        if self.prefix is not None:
            self.prefix.initialise(usual_size, seed)

    def hold_embedding(self, weight: Tensor) -> None:
        """Use the target's input embedding [V, H]."""
        self.register_buffer("embedding", weight.detach(), persistent=False)

    def state(self, head: int, hidden: Tensor, tokens: Tensor) -> Tensor:
        """What head `head` scores: hidden [.., H], tokens int64 [.., head + 1] (the root and the path) -> [.., H]."""
        words = functional.embedding(tokens, self.embedding).flatten(-2)  # [.., (head + 1) H]
        joined = self._dropped(torch.cat([hidden, words], dim=-1))
        base = self.residuals[head](joined) if self.residuals else joined[..., : self.config.hidden_size]
        state: Tensor = base + functional.silu(self.joins[head](joined))
        blocks = self.blocks[head]
        assert isinstance(blocks, nn.ModuleList)
        for block in blocks:
            state = self._dropped(state)
            state = state + functional.silu(block(state))
        return self._dropped(state)

    def _dropped(self, state: Tensor) -> Tensor:
        return functional.dropout(state, self.dropout) if self.dropout and self.training else state

    def scores(self, head: int, state: Tensor) -> Tensor:
        """[.., H] -> scores over the draft vocabulary [.., Vd]."""
        layer = 0 if self.config.shared_output else head
        if self._packed:
            packed: Tensor = self._packed[layer](state)
            return packed
        scores = state @ self.output[layer].T
        return scores if self.output_bias is None else scores + self.output_bias[layer]

    def for_drafting(self, packed_from: PackedFrom | None = None) -> HydraHeads:
        """A frozen copy whose matrices are laid out for few rows (see targets/packed_linear.py)."""
        twin = copy.deepcopy(self).requires_grad_(False).eval()
        pack_model(twin, packed_from)
        biases = [None] * len(twin.output) if twin.output_bias is None else twin.output_bias.detach()
        twin._packed = [pack_linear(*one, packed_from) for one in zip(twin.output.detach(), biases, strict=True)]
        return twin

    def draft_index(self) -> Tensor:
        """int64 [V]: draft token of each target token, -1 for those the heads can't draft."""
        index = torch.full((self.config.vocab_size,), -1, dtype=torch.int64, device=self.token_map.device)
        index[self.token_map] = torch.arange(len(self.token_map), device=index.device)
        return index
