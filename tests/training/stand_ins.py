"""Small features, learners and reporters for training tests."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from backend.drafters.learning import IGNORE, FeatureBatch
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.training.order import PositionOrder

HIDDEN, VOCAB = 12, 30


@dataclass
class MadeUpFeatures(PositionOrder):
    """Random states whose following tokens are a function of them, so that there is something to learn."""

    count: int
    seed: int = 0
    hidden: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.hidden = torch.randn(self.count, HIDDEN, generator=torch.Generator().manual_seed(self.seed))

    @property
    def fingerprint(self) -> str:
        return f"{self.count}-{self.seed}"

    def __len__(self) -> int:
        return self.count

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        rule = torch.randn(horizon, HIDDEN, VOCAB, generator=torch.Generator().manual_seed(77))
        hidden = self.hidden[positions]
        following = torch.einsum("th,fhv->tfv", hidden, rule).argmax(-1)
        following[positions % 7 == 0, -1] = IGNORE
        return FeatureBatch(hidden, following)


def new_learner(seed: int = 0) -> MedusaLearner:
    heads = MedusaHeads(MedusaConfig(hidden_size=HIDDEN, vocab_size=VOCAB, num_heads=2, draft_vocab_size=None))
    heads.initialise(torch.randn(VOCAB, HIDDEN, generator=torch.Generator().manual_seed(seed)), None)
    return MedusaLearner(heads)


@dataclass
class Recorder:
    """Remembers what was reported."""

    rows: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        self.rows.append((step, metrics))

    def resumed(self, step: int) -> None:
        """Rows of later steps come again."""
        self.rows = [row for row in self.rows if row[0] <= step]

    def last(self, name: str) -> float:
        return next(metrics[name] for _, metrics in reversed(self.rows) if name in metrics)


def never() -> bool:
    return False


def stop_after(steps: int, recorder: Recorder) -> bool:
    """Whether `steps` steps were reported; needs report_every=1."""
    return max((step for step, _ in recorder.rows), default=0) >= steps


def weights_of(folder: Path) -> dict[str, Tensor]:
    """The weights in a training state."""
    state = torch.load(folder / "training-state.pt", weights_only=True)
    weights: dict[str, Tensor] = state["model"]
    return weights
