"""Drafter and backbone learn together, and the backbone is held to what it was.

First the drafter learns alone, then both, the backbone at a lower rate. Of the target's own words the loss is the KL
divergence from the original (self-distillation) and, where wished, the cross-entropy of the answers; the drafter's loss
stands beside it with a weight. With Medusa's heads this is Medusa-2 (arXiv 2401.10774, sections 2.2.2 and 2.3.2), with
MTP modules DeepSeek-V3's objective (arXiv 2412.19437, equation 25) or Gloeckle et al.'s (arXiv 2404.19737). What comes
out is another target. Knows no family: a learner takes last hidden states that have a gradient as it takes cached ones.
Knows no files; what the result is called, and how much worse it is, are others' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.drafters.learning import FeatureBatch, Learner, SequenceBatch
from backend.errors import HeadwayError
from backend.targets.target import FINAL, Target
from backend.training.answer_run import AnswerRun, Texts, texts_of
from backend.training.backbone import Backbone, scaled_head
from backend.training.features import TokenizedAnswer
from backend.training.joint_config import JointConfig
from backend.training.loop import Reporter

CHUNK = 256  #: positions whose scores over the whole vocabulary exist at once


def check_can_learn_jointly(learner: Learner) -> None:
    """Raises HeadwayError for one that reads more of the target than its last hidden states."""
    if set(learner.reads) - {FINAL}:
        raise HeadwayError(
            f"A drafter of the family {learner.family!r} reads layers inside the target, and joint training hands over "
            "its last hidden states alone; choose medusa, hydra, eagle or mtp."
        )


def batch_of(learner: Learner, texts: Texts, hidden: Tensor) -> FeatureBatch | SequenceBatch:
    """What the learner takes, made of last hidden states [B, T, H] whose gradient it is to give.

    As teachers they are constants: what is learned from must not be pulled to the learner.
    """
    taught = hidden.detach()
    if learner.reads:
        learn = torch.nn.functional.pad(texts.places, (1, 0))[:, :-1]
        return SequenceBatch(texts.tokens, hidden, taught, learn)
    if not learner.wants_ahead:
        return FeatureBatch(hidden[texts.places], texts.following)
    row, column = texts.places.nonzero(as_tuple=True)
    later = column[:, None] + torch.arange(1, texts.following.shape[1], device=column.device)
    ahead = taught[row[:, None], later.clamp(max=hidden.shape[1] - 1)]
    return FeatureBatch(hidden[texts.places], texts.following, ahead)


def train_jointly(
    config: JointConfig,
    backbone: Backbone,
    learner: Learner,
    original: Target,
    answers: Sequence[TokenizedAnswer],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
) -> bool:
    """Train both in place; state lives in `folder`, from which an unfinished run goes on. False when asked to stop.

    What the learner held of the target may be out of date afterwards; make it anew from the new target.

    Raises HeadwayError for a family that can't, too little data, another run's folder, a full disk, or a loss that is
    no number.
    """
    check_can_learn_jointly(learner)
    return JointRun(config, backbone, learner, original, answers, reporter, folder).go(should_stop)


class JointRun(AnswerRun):
    def __init__(
        self,
        config: JointConfig,
        backbone: Backbone,
        learner: Learner,
        original: Target,
        answers: Sequence[TokenizedAnswer],
        reporter: Reporter,
        folder: Path,
    ) -> None:
        self.config, self.backbone, self.learner, self.original = config, backbone, learner, original
        groups: list[dict[str, Any]] = [
            {"params": list(learner.model.parameters()), "peak": config.head_rate},
            {"params": list(backbone.trained().values()), "peak": config.backbone_rate},
        ]
        super().__init__(config, answers, groups, reporter, folder, original.device, original.max_context)
        self.alone = int(config.heads_alone * self.total)

    def learn(self, answers: Sequence[TokenizedAnswer]) -> dict[str, float]:
        texts, together = texts_of(answers, self.learner.horizon, self.device), self.step >= self.alone
        with torch.set_grad_enabled(together):
            hidden = self.backbone.hidden(texts.tokens, texts.inside).float()  # [B, T, H]
        return self._backward(texts, hidden, together)

    def _backward(self, texts: Texts, hidden: Tensor, together: bool) -> dict[str, float]:
        """Gradients of all losses. They meet in the hidden states and go through the backbone once."""
        leaf = hidden.detach().requires_grad_(together)
        if together and self.config.backbone == "full":
            self._share()
        drafted, per_head = self.learner.loss(batch_of(self.learner, texts, leaf))
        (drafted * (self.config.head_weight if together else 1.0)).backward()
        metrics = {f"loss_{number}": value for number, value in enumerate(per_head.tolist())}
        metrics |= {"loss": float(drafted.detach())}
        if together:
            own = leaf.detach()[texts.places].requires_grad_()  # [P, H]
            metrics |= self._own_words(texts, own)
            assert leaf.grad is not None and own.grad is not None, "both losses read the states"
            leaf.grad[texts.places] += own.grad
            hidden.backward(leaf.grad)
        return metrics

    def _share(self) -> None:
        """The target's embedding and output head learn too, and whoever drafts with them drafts with these."""
        model = self.backbone.model
        words = model.get_input_embeddings().weight
        self.learner.share(words.view_as(words), scaled_head(model))  # a view: parameters belong to one model only

    def _own_words(self, texts: Texts, leaf: Tensor) -> dict[str, float]:
        """The target's own loss at the places, chunk by chunk."""
        config, count = self.config, len(leaf)
        before = self.original.hidden_states(texts.tokens, texts.inside)[texts.places].clone()
        kl_sum = label_sum = 0.0
        for start in range(0, count, CHUNK):
            here = slice(start, start + CHUNK)
            log_q = torch.log_softmax(self.backbone.logits(leaf[here]).float(), dim=-1)
            log_p = torch.log_softmax(self.original.logits(before[here]).clone().float(), dim=-1)
            divergence = (log_p.exp() * (log_p - log_q)).sum()
            entropy = -log_q.gather(1, texts.following[here, :1]).sum()
            part = (config.original_weight * divergence + config.label_weight * entropy) / count
            part.backward()
            kl_sum, label_sum = kl_sum + float(divergence.detach()), label_sum + float(entropy.detach())
        return {"kl_per_token": kl_sum / count, "label_loss": label_sum / count}

    def identity(self) -> dict[str, Any]:
        free = {"checkpoint_every", "report_every"}
        return {
            "settings": self.config.model_dump(exclude=free),
            "family's settings": self.learner.settings,
            "target": self.original.identity.weights_id,
            "answers": len(self.answers),
        }

    def weights(self) -> dict[str, Any]:
        return {
            "heads": self.learner.model.state_dict(),
            "backbone": {name: value.detach() for name, value in self.backbone.trained().items()},
        }

    def take(self, weights: Mapping[str, Any]) -> None:
        self.learner.model.load_state_dict(weights["heads"])
        for name, value in self.backbone.trained().items():
            value.copy_(weights["backbone"][name])
