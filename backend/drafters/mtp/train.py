"""MTP: how new modules start, and what leaves each of them in training.

Labels and counts are those of all drafters with a layer (layer/learner.py). The loss is the mean of the depths' losses
(DeepSeek-V3, arXiv 2412.19437, equations 24 and 25), weighted by a power of the depth where one is set (FastMTP, arXiv
2509.18362). The target is frozen, or learns beside the modules (training/joint.py).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.learner import PairLearner
from backend.drafters.layer.starting import STD, draw_weights, layer_like
from backend.drafters.learning import SequenceBatch
from backend.drafters.mtp.config import MtpConfig, MtpSettings
from backend.drafters.mtp.model import MtpModel, MtpModule, seen_by
from backend.targets.target import Target


def empty_model(target: Target, draft_vocab_size: int, settings: MtpSettings) -> MtpModel:
    """Modules of the right shape without what is the target's, on the CPU."""
    return MtpModel(
        MtpConfig(
            layer=layer_like(target),
            vocab_size=target.vocab_size,
            draft_vocab_size=None if draft_vocab_size == target.vocab_size else draft_vocab_size,
            form=settings.form,
            num_modules=1 if settings.form == "shared" else settings.depth,
            recycle_normed=settings.recycle_normed,
        )
    )


def new_model(target: Target, token_map: Tensor, settings: MtpSettings, seed: int = 0) -> MtpModel:
    """Untrained modules for `target`; token_map int64 [Vd]. At first a module hands the state on as it is."""
    model = empty_model(target, len(token_map), settings)
    draw_weights(model, seed)
    model.token_map.copy_(token_map)
    for part in model.parts:
        _pass_through(part, target.hidden_size)
    model.hold_target(target)
    return model.to(target.device)


@torch.no_grad()
def _pass_through(part: MtpModule, width: int) -> None:
    if hasattr(part, "proj"):
        part.proj.weight[:, width:] += torch.eye(width)
        part.proj.weight[:, :width] *= 1 / (STD * width**0.5)


class MtpLearner(PairLearner):
    """A PairLearner for every form."""

    model: MtpModel

    def loss(self, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        total, each = super().loss(batch)
        return total / sum(self.config.decay**step for step in range(len(each))), each

    def outputs(self, batch: SequenceBatch, noise: Tensor | None = None, steps: int | None = None) -> list[Tensor]:
        if self.model.config.form == "shared":
            return super().outputs(batch, noise, steps)
        feature = self.model.feature(batch.states if noise is None else batch.states + noise)
        columns = torch.arange(batch.tokens.shape[1], device=feature.device)[None]
        found = []
        for number, part in enumerate(self.model.parts):
            words = None
            if self.model.config.form == "modules":
                ahead = number + 1
                words = self.model.embed(functional.pad(batch.tokens, (0, ahead))[:, ahead:])
            inputs, residual = part.join(feature, words)
            seen = seen_by(columns, columns[0], 0 if words is None else number)
            block = KeyBlock(*part.layer.key_value(inputs, columns), seen)
            output = part.layer.finish(residual, attend(part.layer.query(inputs, columns), [block]))
            found.append(part.norm(output))
            if words is not None:
                feature = part.recycled(output)
        return found
