"""What a family of pair-reading drafters has to say: which states it reads, how it joins them with tokens, how it
scores.

Drafting (drafting.py) and training (learner.py) go through these functions alone, so that what is trained is what is
decoded. A new family of this kind is one such module.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from backend.drafters.layer.attention import DraftLayer
from backend.targets.packed_linear import PackedFrom, pack_model


class PairModel(nn.Module, ABC):
    """A decoder layer over (feature, next token) pairs.

    A *feature* [.., H] is what the layer recycles: at depth 1 it comes from the target's states, at depth d + 1 it is
    the layer's own output at depth d. The embedding is the target's, frozen; it is held but not saved.

    Attributes:
        reads: layers of the target whose states, side by side, `feature` takes.
        layer: the decoder layer.
        token_map: int64 [Vd], target token of each token the drafter can draft.
    """

    reads: tuple[int, ...]
    layer: DraftLayer
    token_map: Tensor
    embedding: Tensor

    def hold_embedding(self, weight: Tensor) -> None:
        """Use the target's input embedding [V, H]."""
        self.register_buffer("embedding", weight.detach(), persistent=False)

    def share(self, embedding: Tensor, head: Tensor) -> None:
        """See Learner.share."""
        self.embedding = embedding

    @property
    def vocab_size(self) -> int:
        return len(self.embedding)

    def embed(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self.embedding)

    @abstractmethod
    def feature(self, states: Tensor) -> Tensor:
        """The target's states [.., F] -> features [.., H]."""

    @abstractmethod
    def join(self, feature: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, T, H] and the tokens after them, int64 [B, T] -> (what is projected [B, T, W], residual [B, T,
        H]).
        """

    @abstractmethod
    def recycled(self, output: Tensor) -> Tensor:
        """What leaves the layer [B, T, H] -> the feature of the next depth."""

    @abstractmethod
    def scored(self, output: Tensor) -> Tensor:
        """What leaves the layer [.., H] -> what the output rows are multiplied with."""

    @abstractmethod
    def output_rows(self) -> Tensor:
        """float [Vd, H], one row a token that can be drafted."""

    def extreme(self, states: Tensor) -> Tensor:
        """bool [..]: where the target's states [.., F] are so unlike all others that nothing is to be learned there, as
        at an attention sink.
        """
        return torch.zeros(states.shape[:-1], dtype=torch.bool, device=states.device)

    def scores(self, output: Tensor) -> Tensor:
        """What leaves the layer [.., H] -> scores over the draft vocabulary [.., Vd]."""
        return self.scored(output) @ self.output_rows().T

    def twin(self) -> Self:
        """A copy with weights of its own that shares what is the target's: its embedding is often the largest part."""
        shared = [self._buffers[name] for name in self._non_persistent_buffers_set]
        return copy.deepcopy(self, {id(buffer): buffer for buffer in shared})

    def for_drafting(self, packed_from: PackedFrom | None = None) -> PairModel:
        """A frozen copy whose matrices are laid out for few rows (see targets/packed_linear.py)."""
        twin = self.twin().requires_grad_(False).eval()
        pack_model(twin, packed_from)
        return twin

    def draft_index(self) -> Tensor:
        """int64 [V]: draft token of each target token, -1 for those that can't be drafted."""
        index = torch.full((self.vocab_size,), -1, dtype=torch.int64, device=self.token_map.device)
        index[self.token_map] = torch.arange(len(self.token_map), device=index.device)
        return index
