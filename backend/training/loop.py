"""One training loop for all families: batches, optimiser, schedule, evaluation, checkpoints, resume.

Knows no family (see drafters/learning.py for what it asks of one), no answers and no target: it sees positions. A run
that is killed and resumed takes the same steps, bit for bit, on a CPU with the same number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from backend.drafters.learning import Evaluation, FeatureBatch, Learner
from backend.errors import HeadwayError
from backend.training.config import TrainConfig
from backend.training.schedule import learning_rate
from backend.training.state import check_same_run, load_state, save_state


class Features(Protocol):
    """Positions to learn from, in random access."""

    @property
    def fingerprint(self) -> str:
        """Changes when the content does."""
        ...

    def __len__(self) -> int: ...

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        """The positions with these numbers, int64 [T], each with `horizon` following tokens."""
        ...


class Reporter(Protocol):
    """Where numbers go while training runs."""

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None: ...


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    finish_reason: done, stopped (asked to; resumable) or not_finite (see `reason`). `evaluation` and `ranks` (int64 [T,
    K]) are those of the last evaluation, on the final weights when the run is done.
    """

    steps: int
    total_steps: int
    finish_reason: str
    reason: str
    train_s: float
    evaluation: Evaluation | None
    ranks: Tensor | None = field(repr=False, default=None)


class _NotFinite(Exception):
    """A loss or gradient stopped being a number."""


def train(
    config: TrainConfig,
    learner: Learner,
    features: Features,
    held_out: Features,
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
) -> TrainResult:
    """Train `learner` in place; state lives in `folder`, from which an unfinished run of the same settings goes on.

    Raises HeadwayError when there is too little data, when `folder` holds another run, or when the disk refuses.
    """
    if len(features) < config.batch_tokens:
        raise HeadwayError(
            f"There are {len(features)} training positions, fewer than one batch of {config.batch_tokens}; "
            "make more answers or a smaller batch."
        )
    return _Run(config, learner, features, held_out, reporter, folder).go(should_stop)


class _Run:
    def __init__(
        self,
        config: TrainConfig,
        learner: Learner,
        features: Features,
        held_out: Features,
        reporter: Reporter,
        folder: Path,
    ) -> None:
        self.config, self.learner, self.features, self.held_out = config, learner, features, held_out
        self.reporter, self.folder = reporter, folder
        self.device = next(learner.model.parameters()).device
        self.total = config.total_steps(len(features))
        self.per_epoch = config.steps_per_epoch(len(features))
        self.optimiser = torch.optim.AdamW(
            learner.model.parameters(),
            lr=config.learning_rate,
            betas=(config.beta_1, config.beta_2),
            weight_decay=config.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),
        )
        self.step, self.spent_s = 0, 0.0
        self.evaluation: Evaluation | None = None
        self.ranks: Tensor | None = None
        self._order = (-1, torch.empty(0, dtype=torch.int64))

    def go(self, should_stop: Callable[[], bool]) -> TrainResult:
        torch.manual_seed(self.config.seed)
        self._resume()
        if self.step == 0:
            self._evaluate()
        try:
            while self.step < self.total:
                if should_stop():
                    self._save()
                    return self._result("stopped", f"stopped at step {self.step} of {self.total}; it can go on")
                self._one_step()
        except _NotFinite as error:
            return self._result("not_finite", str(error))
        if self.evaluation is None:  # resumed when all was done
            self._evaluate()
        return self._result("done", "")

    def _one_step(self) -> None:
        started = time.perf_counter()
        batch = self.features.batch(self._positions(self.step), self.learner.horizon).to(self.device)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, self.step, self.total)
        self.optimiser.zero_grad(set_to_none=True)
        loss, per_head = self.learner.loss(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.learner.model.parameters(), self.config.gradient_clip)
        value, length = loss.item(), norm.item()
        if not (math.isfinite(value) and math.isfinite(length)):
            raise _NotFinite(
                f"At step {self.step} the loss was {value} and the gradient's norm {length}; "
                "lower the learning rate or the gradient clip and resume from the last checkpoint."
            )
        self.optimiser.step()
        self.step += 1
        self.spent_s += time.perf_counter() - started
        self._after_step(value, length, per_head)

    def _after_step(self, loss: float, norm: float, per_head: Tensor) -> None:
        last = self.step == self.total
        if last or self.step % self.config.report_every == 0:
            heads = {f"loss_{head}": value for head, value in enumerate(per_head.tolist())}
            rate = self.optimiser.param_groups[0]["lr"]
            self._report({"loss": loss, "gradient_norm": norm, "learning_rate": rate, "train_s": self.spent_s, **heads})
        if last or self.step % self.config.evaluate_every == 0:
            self._evaluate()
        if last or self.step % self.config.checkpoint_every == 0:
            self._save()

    def _positions(self, step: int) -> Tensor:
        """Which positions step `step` sees: a slice of its epoch's own permutation, so nothing but the step is
        remembered.
        """
        epoch, place = divmod(step, self.per_epoch)
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
            self._order = (epoch, torch.randperm(len(self.features), generator=generator))
        start = place * self.config.batch_tokens
        return self._order[1][start : start + self.config.batch_tokens]

    def _evaluate(self) -> None:
        if len(self.held_out) == 0:
            return
        self.learner.model.eval()
        parts = []
        for positions in torch.arange(len(self.held_out)).split(self.config.batch_tokens):
            parts.append(self.learner.evaluate(self.held_out.batch(positions, self.learner.horizon).to(self.device)))
        self.learner.model.train()
        counts = [counts for counts, _ in parts]
        self.evaluation = sum(counts[1:], start=counts[0])
        self.ranks = torch.cat([ranks for _, ranks in parts]).cpu()
        self._report({f"held_out_{name}": value for name, value in self.evaluation.as_metrics().items()})

    def _report(self, metrics: dict[str, float]) -> None:
        self.reporter.report(self.step, self.total, metrics)

    # -- checkpoints
    # ----------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What has to agree for a resume: everything that decides a step. How often to report or save does not."""
        free = {"checkpoint_every", "evaluate_every", "report_every"}
        settings = self.config.model_dump(exclude=free)
        shapes = {name: list(value.shape) for name, value in self.learner.model.state_dict().items()}
        return {
            "settings": settings,
            "family": self.learner.family,
            "family's settings": self.learner.settings,
            "shapes": shapes,
            "features": self.features.fingerprint,
        }

    def _save(self) -> None:
        state = {
            "run": self._identity(),
            "step": self.step,
            "train_s": self.spent_s,
            "model": self.learner.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
        }
        save_state(self.folder, state)

    def _resume(self) -> None:
        state = load_state(self.folder)
        if state is None:
            return
        check_same_run(state, self._identity(), self.folder)
        self.step, self.spent_s = state["step"], state["train_s"]
        self.learner.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])

    def _result(self, finish_reason: str, reason: str) -> TrainResult:
        return TrainResult(self.step, self.total, finish_reason, reason, self.spent_s, self.evaluation, self.ranks)
