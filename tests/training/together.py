"""Run by torchrun in two processes: the gradient of every family from parts of a batch beside that of the whole one.

Prints, as JSON, how far they are apart (relative to the largest number), by family and size of batch.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.learning import Learner
from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.peagle.config import PeagleSettings
from backend.training.online import OnlinePositions, OnlineTexts
from backend.training.processes import Processes, joined, loss_over, parts_of
from tests.drafters.stand_ins import tiny_target
from tests.training.test_features import pairs
from tests.training.test_pair_training import learner_of

LAYER: dict[str, Any] = {"draft_vocab": 200, "draft_depth": 2}
FAMILIES: dict[str, FamilySettings] = {
    "medusa": MedusaSettings(num_heads=2, draft_vocab=200),
    "hydra": HydraSettings(num_heads=2, draft_vocab=200),
    "hydra lk": HydraSettings(num_heads=2, draft_vocab=200, loss="lk"),
    "hydra++": HydraSettings(num_heads=2, draft_vocab=200, head_arch="prefix-mlp", loss="soft"),
    "eagle": EagleSettings(**LAYER, test_time_steps=2, feature_weight=1.0, noise=0.0),
    "eagle3": Eagle3Settings(**LAYER, test_time_steps=2),
    "mtp": MtpSettings(**LAYER, form="modules"),
    "peagle": PeagleSettings(**LAYER, kept_places=1.0),
}


def gradient(learner: Learner) -> torch.Tensor:
    weights = [weight.grad for weight in learner.model.parameters() if weight.grad is not None]
    return torch.cat([grad.flatten() for grad in weights])


def compared(processes: Processes, settings: FamilySettings, size: int) -> dict[str, float]:
    """Of loss, losses by depth and gradient; two steps, as the first one of averaged gradients is special."""
    target, answers = tiny_target(), pairs(24)
    learner, alone = learner_of(settings, target, answers), learner_of(settings, target, answers)
    features: Any = (
        OnlineTexts(target, answers, learner.reads)
        if learner.reads
        else OnlinePositions(target, answers, learner.wants_ahead)
    )
    together = loss_over(processes, learner)
    apart: dict[str, float] = {"loss": 0.0, "by depth": 0.0, "gradient": 0.0}
    for step in range(2):
        numbers = torch.arange(step, step + size)
        alone.model.zero_grad()
        loss, by_depth = alone.loss(features.batch(numbers, learner.horizon))
        loss.backward()
        right = {"loss": loss.detach()[None], "by depth": by_depth, "gradient": gradient(alone)}
        learner.model.zero_grad()
        loss, by_depth = together(parts_of(processes, lambda own: features.batch(own, learner.horizon), numbers))
        loss.backward()
        found = {"loss": processes.mean(loss.detach()[None]), "by depth": processes.mean(by_depth),
                 "gradient": gradient(learner)}  # fmt: skip
        for name, value in right.items():
            distance = (found[name].double() - value.double()).abs().max() / value.double().abs().max().clamp(min=1e-12)
            apart[name] = max(apart[name], float(distance))
    return apart


def main() -> int:
    with joined("cpu") as processes:
        found = {
            f"{name}, {size}": compared(processes, settings, size)
            for name, settings in FAMILIES.items()
            for size in (1, 3, 8)
        }
        if processes.first:
            print(json.dumps(found))
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
