"""Medusa-2: heads and backbone learn together, and the backbone is held to what it was.

First the heads learn alone, then both, the backbone at a lower rate; of the target's own words the loss is the KL
divergence from the original (self-distillation) and, where wished, the cross-entropy of the answers (Medusa, arXiv
2401.10774, sections 2.2.2 and 2.3.2). What comes out is another target. Knows no files; what the result is called, and
how much worse it is, are others' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.drafters.learning import FeatureBatch
from backend.drafters.medusa.train import MedusaLearner
from backend.targets.target import Target
from backend.training.answer_run import AnswerRun, Texts, texts_of
from backend.training.backbone import Backbone
from backend.training.features import TokenizedAnswer
from backend.training.joint_config import JointConfig
from backend.training.loop import Reporter

CHUNK = 256  #: positions whose scores over the whole vocabulary exist at once


def train_jointly(
    config: JointConfig,
    backbone: Backbone,
    learner: MedusaLearner,
    original: Target,
    answers: Sequence[TokenizedAnswer],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
) -> bool:
    """Train both in place; state lives in `folder`, from which an unfinished run goes on. False when asked to stop.

    Raises HeadwayError for too little data, another run's folder, a full disk, or a loss that is no number.
    """
    return JointRun(config, backbone, learner, original, answers, reporter, folder).go(should_stop)


class JointRun(AnswerRun):
    def __init__(
        self,
        config: JointConfig,
        backbone: Backbone,
        learner: MedusaLearner,
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
            hidden = self.backbone.hidden(texts.tokens, texts.inside)[texts.places].float()  # [P, H]
        return self._backward(texts, hidden, together)

    def _backward(self, texts: Texts, hidden: Tensor, together: bool) -> dict[str, float]:
        """Gradients of all losses. They meet in the hidden states and go through the backbone once."""
        leaf = hidden.detach().requires_grad_(together)
        heads, per_head = self.learner.loss(FeatureBatch(leaf, texts.following))
        (heads * (self.config.head_weight if together else 1.0)).backward()
        metrics = {f"loss_{number}": value for number, value in enumerate(per_head.tolist())}
        metrics |= {"loss": float(heads.detach())}
        if together:
            metrics |= self._own_words(texts, leaf)
            hidden.backward(leaf.grad)
        return metrics

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
