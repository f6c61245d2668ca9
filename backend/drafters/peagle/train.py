"""P-EAGLE: how a new head starts, and what leaves it in training.

In training every pair of a text is a root once, and behind it stand its places, so there are as many columns as a text
has tokens, times the depth. Conditional-on-drop sampling makes them fewer: of the roots whose place at depth d is kept,
a part is kept at depth d + 1, and never less than a least part of all. A place is kept only where the places before it
are, as it sees them. Which ones are kept is drawn anew for every batch; in evaluation all are.

Loss, labels and counts are those of all drafters with a layer (layer/learner.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.eagle3.train import default_layers
from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.learner import PairLearner, attend_own
from backend.drafters.layer.starting import draw_weights, layer_like
from backend.drafters.learning import IGNORE, SequenceBatch
from backend.drafters.peagle.config import PeagleConfig, PeagleSettings, PeagleTrainConfig
from backend.drafters.peagle.model import PeagleHead
from backend.targets.target import Target


def empty_head(target: Target, draft_vocab_size: int, settings: PeagleSettings) -> PeagleHead:
    """A head of the right shape without an embedding, on the CPU."""
    pad = getattr(target.tokenizer, "pad_token_id", None)
    return PeagleHead(
        PeagleConfig(
            layer=layer_like(target),
            target_hidden_size=target.hidden_size,
            vocab_size=target.vocab_size,
            draft_vocab_size=draft_vocab_size,
            reads=settings.reads or default_layers(target.num_layers),
            num_layers=settings.num_layers,
            num_positions=settings.draft_depth,
            mask_token_id=pad if isinstance(pad, int) and pad < target.vocab_size else 0,
        )
    )


def new_head(
    target: Target, token_map: Tensor, settings: PeagleSettings, scales: Sequence[float], seed: int = 0
) -> PeagleHead:
    """An untrained head for `target`; token_map int64 [Vd]. Its output rows start as the target's own."""
    head = empty_head(target, len(token_map), settings)
    draw_weights(head, seed)
    head.token_map.copy_(token_map)
    head.state_scale.copy_(torch.tensor(scales))
    with torch.no_grad():
        head.lm_head.weight.copy_(target.lm_head_weight()[token_map.to(target.device)])
        head.mask_hidden.copy_(torch.randn(head.mask_hidden.shape, generator=torch.Generator().manual_seed(seed + 1)))
    head.hold_embedding(target.embedding_weight().float())
    return head.to(target.device)


class PeagleLearner(PairLearner):
    """A PairLearner whose later steps are places."""

    model: PeagleHead
    config: PeagleTrainConfig

    def outputs(self, batch: SequenceBatch, noise: Tensor | None = None, steps: int | None = None) -> list[Tensor]:
        model, columns = self.model, torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        tokens = torch.nn.functional.pad(batch.tokens, (0, 1))[:, 1:]
        feature = model.feature(batch.states if noise is None else batch.states + noise)
        blocks: list[list[KeyBlock]] = [[] for _ in model.stack]  # of each layer: the pairs', then each depth's places
        found = [self._layers(model.join(feature, tokens), columns, columns, blocks)]
        self._kept = [torch.ones_like(columns, dtype=torch.bool)]
        roots = columns[torch.randperm(len(columns), device=columns.device)] if model.training else columns
        for step in range(1, self.config.steps if steps is None else steps):
            kept = roots[: self._count(len(columns), step)]
            inputs, residual = (value.expand(len(feature), len(kept), -1) for value in model.places())
            output = self._layers((inputs, residual), kept + step, kept, blocks)
            whole = output.new_zeros(len(feature), len(columns), output.shape[-1])
            found.append(whole.index_copy(1, kept, output))
            self._kept.append(torch.zeros_like(self._kept[0]).index_fill(0, kept, True))
        return found

    def _count(self, columns: int, step: int) -> int:
        """Roots whose place at this depth is kept."""
        if not self.model.training:
            return columns
        return max(1, round(max(self.config.kept_places**step, self.config.kept_least) * columns))

    def _layers(
        self, entered: tuple[Tensor, Tensor], positions: Tensor, roots: Tensor, blocks: list[list[KeyBlock]]
    ) -> Tensor:
        """What leaves the last layer at the places of `roots` int64 [n] of one depth (or at the pairs themselves), and
        their keys added to `blocks`. Roots of a depth are the first of those of the depth before.
        """
        (inputs, residual), output = entered, entered[1]
        for number, layer in enumerate(self.model.stack):
            if number:
                inputs, residual = self.model.enter(number, output)
            mine = blocks[number]
            keys, values = layer.key_value(inputs, positions[None])
            mine.append(KeyBlock(keys, values, torch.empty(0)))
            count = len(roots)
            pairs = torch.arange(mine[0].keys.shape[2], device=roots.device)
            seen = (pairs <= roots[:, None])[None]
            later = [KeyBlock(b.keys[:, :, :count], b.values[:, :, :count], b.seen) for b in mine[1:]]
            query = layer.query(inputs, positions[None])
            first = KeyBlock(mine[0].keys, mine[0].values, seen)
            output = layer.finish(residual, attend_own(query, [first, *later]) if later else attend(query, [first]))
        return output

    def _taught(self, batch: SequenceBatch, step: int) -> tuple[Tensor, Tensor, Tensor]:
        taught, labels, answered = super()._taught(batch, step)
        kept = self._kept[step]
        return taught, torch.where(kept, labels, IGNORE), answered & kept
