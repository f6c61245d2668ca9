"""The Medusa heads themselves: x <- x + SiLU(W x + b) once or more, then scores over the draft vocabulary.

All heads sit in stacked weights, so that training computes them in one batched product; `HeadsForDrafting` is the same
arithmetic laid out for a few rows at a time. Knows neither trees nor losses. Formula: Medusa (arXiv 2401.10774),
section 2.1.1.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from backend.drafters.medusa.config import MedusaConfig
from backend.targets.packed_linear import PackedFrom, pack_linear


class MedusaHeads(nn.Module):
    """K heads with L blocks each.

    Weights: block_weight [K, L, H, H], block_bias [K, L, H], output [K or 1, Vd, H]; token_map int64 [Vd] gives the
    target token of each draft token (all of them in order when the vocabulary is not reduced).
    """

    token_map: Tensor

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.config = config
        heads, blocks, width = config.num_heads, config.num_blocks, config.hidden_size
        # Zero blocks: SiLU(0) = 0, so an untrained head passes the hidden state through.
        self.block_weight = nn.Parameter(torch.zeros(heads, blocks, width, width))
        self.block_bias = nn.Parameter(torch.zeros(heads, blocks, width))
        self.output = nn.Parameter(torch.zeros(config.output_layers, config.output_rows, width))
        self.register_buffer("token_map", torch.arange(config.output_rows))

    @torch.no_grad()
    def initialise(self, lm_head: Tensor, token_map: Tensor | None) -> None:
        """Copy the output rows from the target's LM head [V, H]; `token_map` int64 [Vd] names the tokens to draft."""
        if token_map is not None:
            self.token_map.copy_(token_map)
        self.output.copy_(lm_head[self.token_map.to(lm_head.device)].to(self.output).expand_as(self.output))

    def states(self, hidden: Tensor) -> Tensor:
        """hidden [T, H] -> what the output layers see, [K, T, H]."""
        state = hidden.expand(self.config.num_heads, -1, -1)
        for block in range(self.config.num_blocks):
            weight, bias = self.block_weight[:, block], self.block_bias[:, block, None]
            state = state + functional.silu(torch.baddbmm(bias, state, weight.transpose(1, 2)))
        return state

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden [T, H] -> scores over the draft vocabulary, [K, T, Vd]."""
        state = self.states(hidden)
        return torch.bmm(state, self.output.transpose(1, 2).expand(len(state), -1, -1))

    def draft_index(self) -> Tensor:
        """int64 [V]: draft token of each target token, -1 for those the heads can't draft."""
        index = torch.full((self.config.vocab_size,), -1, dtype=torch.int64, device=self.token_map.device)
        index[self.token_map] = torch.arange(len(self.token_map), device=index.device)
        return index


class HeadsForDrafting(nn.Module):
    """The first `depth` of trained heads, laid out for a few rows at a time on the device where the target is.

    On a CPU in float32 each matrix is packed for oneDNN, which is far faster for few rows than a batched product;
    elsewhere the heads stay batched, so that depth does not multiply the kernels launched.
    """

    def __init__(self, heads: MedusaHeads, packed_from: PackedFrom | None = None) -> None:
        super().__init__()
        self.config = heads.config
        weight = heads.block_weight.detach()
        self.packed = weight.device.type == "cpu" and weight.dtype == torch.float32
        self.token_map = heads.token_map
        if not self.packed:
            self.heads = heads.requires_grad_(False)
            return
        self.blocks = nn.ModuleList(
            nn.ModuleList(pack_linear(w, b, packed_from) for w, b in zip(weights, biases, strict=True))
            for weights, biases in zip(weight, heads.block_bias.detach(), strict=True)
        )
        self.outputs = nn.ModuleList(pack_linear(rows, None, packed_from) for rows in heads.output.detach())

    def forward(self, hidden: Tensor, depth: int) -> Tensor:
        """hidden [B, H] -> scores of the first `depth` heads, [depth, B, Vd]."""
        if self.packed:
            return self._packed_scores(torch.stack([self._packed_state(hidden, head) for head in range(depth)]))
        state = hidden.expand(depth, -1, -1)
        for block in range(self.config.num_blocks):
            weight, bias = self.heads.block_weight[:depth, block], self.heads.block_bias[:depth, block, None]
            state = state + functional.silu(torch.baddbmm(bias, state, weight.transpose(1, 2)))
        return torch.bmm(state, self.heads.output[:depth].transpose(1, 2).expand(depth, -1, -1))

    def _packed_state(self, hidden: Tensor, head: int) -> Tensor:
        blocks = self.blocks[head]
        assert isinstance(blocks, Iterable)
        for block in blocks:
            hidden = hidden + functional.silu(block(hidden))
        return hidden

    def _packed_scores(self, states: Tensor) -> Tensor:
        """[depth, B, H] -> [depth, B, Vd]; a shared output layer is read once for all heads: most of its cost."""
        if self.config.shared_output:
            depth, rows, width = states.shape
            scores: Tensor = self.outputs[0](states.view(depth * rows, width))
            return scores.view(depth, rows, -1)
        return torch.stack([output(state) for output, state in zip(self.outputs, states, strict=False)])
