"""Supervised fine-tuning: the target learns given answers word for word, and becomes another version of itself.

Only tokens that the assistant writes are learned. Knows a model and token ids; no file but its own state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from backend.errors import Cancelled
from backend.training.answer_run import AnswerRun, texts_of
from backend.training.backbone import Backbone
from backend.training.features import TokenizedAnswer
from backend.training.finetune_config import FinetuneConfig
from backend.training.loop import Reporter

CHUNK = 256  #: positions whose scores over the whole vocabulary exist at once


def finetune(
    config: FinetuneConfig,
    backbone: Backbone,
    answers: Sequence[TokenizedAnswer],
    identity: Mapping[str, Any],
    device: torch.device,
    max_context: int,
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
) -> bool:
    """Train in place; state lives in `folder`, from which an unfinished run goes on. False when asked to stop.

    identity: what else must be the same when it goes on: the target, the data. Raises HeadwayError for too little data,
    another run's folder, a full disk, or a loss that is no number.
    """
    return FinetuneRun(config, backbone, answers, identity, device, max_context, reporter, folder).go(should_stop)


@torch.no_grad()
def answer_loss(
    backbone: Backbone,
    answers: Sequence[TokenizedAnswer],
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[float, int]:
    """(summed minus log-probability, tokens) of the answers' tokens. Raises Cancelled when asked to stop."""
    total, count = 0.0, 0
    for answer in answers:
        if should_stop():
            raise Cancelled("Measuring the held-out loss was stopped; resume the job to go on.")
        texts = texts_of([answer], 1, device)
        hidden = backbone.hidden(texts.tokens, texts.inside)[texts.places]
        for start in range(0, len(hidden), CHUNK):
            here = slice(start, start + CHUNK)
            log_p = torch.log_softmax(backbone.logits(hidden[here]).float(), dim=-1)
            total -= float(log_p.gather(1, texts.following[here]).sum())
        count += len(hidden)
    return total, count


class FinetuneRun(AnswerRun):
    def __init__(
        self,
        config: FinetuneConfig,
        backbone: Backbone,
        answers: Sequence[TokenizedAnswer],
        identity: Mapping[str, Any],
        device: torch.device,
        max_context: int,
        reporter: Reporter,
        folder: Path,
    ) -> None:
        self.config, self.backbone, self._about = config, backbone, dict(identity)
        groups = [{"params": list(backbone.trained().values()), "peak": config.rate}]
        super().__init__(config, answers, groups, reporter, folder, device, max_context)

    def learn(self, answers: Sequence[TokenizedAnswer]) -> dict[str, float]:
        texts = texts_of(answers, 1, self.device)
        hidden = self.backbone.hidden(texts.tokens, texts.inside)[texts.places]  # [P, H]
        leaf = hidden.detach().requires_grad_()
        total = 0.0
        for start in range(0, len(leaf), CHUNK):  # the chunks' gradients meet here and go through the model once
            here = slice(start, start + CHUNK)
            log_p = torch.log_softmax(self.backbone.logits(leaf[here]).float(), dim=-1)
            part = -log_p.gather(1, texts.following[here]).sum() / len(leaf)
            part.backward()
            total += float(part.detach())
        hidden.backward(leaf.grad)
        return {"loss": total}

    def identity(self) -> dict[str, Any]:
        settings = self.config.model_dump(exclude={"checkpoint_every", "report_every"})
        return {"settings": settings, "answers": len(self.answers), **self._about}

    def weights(self) -> dict[str, Any]:
        return {"backbone": {name: value.detach() for name, value in self.backbone.trained().items()}}

    def take(self, weights: Mapping[str, Any]) -> None:
        for name, value in self.backbone.trained().items():
            value.copy_(weights["backbone"][name])
