"""One training loop for all families: batches, optimiser, schedule, evaluation, checkpoints, resume.

Knows no family (see drafters/learning.py for what it asks of one), no answers and no target: it sees numbered batches,
of positions or of whole texts, and a judge that gives counts. A run that is killed and resumed takes the same steps,
bit for bit, on a CPU with the same number of threads. Several processes may take them together (training/processes.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from backend.drafters.learning import Evaluation, Learner, acceptance_of_ranks
from backend.errors import HeadwayError
from backend.training.config import TrainConfig
from backend.training.kept import forget_weights_after, forget_weights_before, weights_file
from backend.training.precision import computing_in
from backend.training.processes import ALONE, Processes, loss_over, parts_of
from backend.training.schedule import learning_rate
from backend.training.state import (
    BEST,
    check_same_run,
    load_state,
    random_state,
    restore_random_state,
    save_state,
)
from backend.training.watch import LossWatch

if TYPE_CHECKING:
    from backend.training.judge import Judged


class Features(Protocol):
    """What is learned from, in random access: numbered positions, or numbered texts (see training/order.py)."""

    @property
    def fingerprint(self) -> str:
        """Changes when the content does."""
        ...

    def __len__(self) -> int:
        """Tokens to be predicted."""
        ...

    def per_epoch(self, batch_tokens: int) -> int:
        """Batches of every epoch; 0 when there is too little for one."""
        ...

    def epoch(self, batch_tokens: int, seed: int) -> Sequence[Tensor]:
        """The batches of the epoch with this seed, each int64 [n], numbers for `batch`."""
        ...

    def in_order(self, batch_tokens: int) -> Sequence[Tensor]:
        """Everything once, in batches."""
        ...

    def batch(self, numbers: Tensor, horizon: int, /) -> Any:
        """What the learner takes: a FeatureBatch of these positions with `horizon` following tokens each, or a
        SequenceBatch of these texts.
        """
        ...


class Reporter(Protocol):
    """Where numbers go while training runs."""

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def resumed(self, step: int) -> None:
        """The run goes on after `step`: what was reported of later steps will be reported again."""
        ...


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    finish_reason: done, stopped (asked to; resumable), not_finite or exploded (see `reason`). `evaluation` and `ranks`
    (int64 [T, K]) are those of the weights the learner has now: when done, the last ones or, where a judge decided, the
    best ones, of step `kept_step` with the acceptance length `acceptance_length`.
    """

    steps: int
    total_steps: int
    finish_reason: str
    reason: str
    train_s: float
    evaluation: Evaluation | None
    ranks: Tensor | None = field(repr=False, default=None)
    kept_step: int | None = None
    acceptance_length: float | None = None


class _Failed(Exception):
    """The loss stopped being a number, or left all bounds; finish_reason and sentence."""


def train(
    config: TrainConfig,
    learner: Learner,
    features: Features,
    held_out: Features,
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
    judge: Callable[[], Judged | None] | None = None,
    origin: str = "",
    processes: Processes = ALONE,
) -> TrainResult:
    """Train `learner` in place; state lives in `folder`, from which an unfinished run of the same settings goes on.

    The learner's model must be on the device it is to be trained on. `judge` gives the real acceptance of the
    current weights; `origin` names the weights the learner starts from (a hash), so that a run resumes only with those.
    `processes`: those that train together, all of them given the same; only the first one measures, reports and
    saves, and only there the result has an evaluation and the learner, in the end, the weights to keep.

    Raises HeadwayError when there is too little data, when `folder` holds another run, or when the disk refuses.
    """
    if not features.per_epoch(config.batch_tokens):
        raise HeadwayError(
            f"There are {len(features)} training positions, fewer than one batch of {config.batch_tokens}; "
            "make more answers or a smaller batch."
        )
    return _Run(config, learner, features, held_out, reporter, folder, judge, origin, processes).go(should_stop)


class _Run:
    def __init__(
        self,
        config: TrainConfig,
        learner: Learner,
        features: Features,
        held_out: Features,
        reporter: Reporter,
        folder: Path,
        judge: Callable[[], Judged | None] | None,
        origin: str,
        processes: Processes,
    ) -> None:
        self.config, self.learner, self.features, self.held_out = config, learner, features, held_out
        self.reporter, self.folder, self.judge, self.origin = reporter, folder, judge, origin
        self.processes = processes
        self.device = next(learner.model.parameters()).device
        self.per_epoch = features.per_epoch(config.batch_tokens)
        self.total = config.steps_over(self.per_epoch)
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
        self.best: tuple[int, float] | None = None  # step and acceptance length
        self.watch = LossWatch(config.explosion_factor, config.explosion_reports)
        self._order: tuple[int, Sequence[Tensor]] = (-1, ())

    def go(self, should_stop: Callable[[], bool]) -> TrainResult:
        threads = torch.get_num_threads()
        try:
            return self._go(should_stop)
        finally:
            torch.set_num_threads(threads)  # a resumed run has those it began with

    def _go(self, should_stop: Callable[[], bool]) -> TrainResult:
        torch.manual_seed(self.config.seed)
        self._resume()
        self.loss = loss_over(self.processes, self.learner)
        if self.processes.first:
            self.reporter.resumed(self.step)
        if self.step == 0:
            self._evaluate()
        try:
            while self.step < self.total:
                if self.processes.from_first(self.processes.first and should_stop()):
                    self._save()
                    return self._result("stopped", f"stopped at step {self.step} of {self.total}; it can go on")
                self._one_step()
        except _Failed as error:
            return self._result(*error.args)
        self._finish()
        return self._result("done", "")

    def _one_step(self) -> None:
        started = time.perf_counter()
        batch = parts_of(self.processes, self._batch, self._numbers(self.step)).to(self.device)
        self.processes.seeded(self.config.seed, self.step)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, self.step, self.total)
        self.optimiser.zero_grad(set_to_none=True)
        with computing_in(self.config.precision, self.learner.model, self.device):
            loss, per_head = self.loss(batch)
        loss.backward()
        losses = self.processes.mean(torch.cat([loss.detach()[None], per_head]))
        value, length = losses[0].item(), self._cut_gradient()
        if not (math.isfinite(value) and math.isfinite(length)):
            raise _Failed(
                "not_finite",
                f"At step {self.step} the loss was {value} and the gradient's norm {length}; "
                "lower the learning rate or the gradient clip and start from the last checkpoint.",
            )
        self.optimiser.step()
        self.step += 1
        self.spent_s += time.perf_counter() - started
        self._after_step(value, length, losses[1:])

    def _batch(self, numbers: Tensor) -> Any:
        return self.features.batch(numbers, self.learner.horizon)

    def _after_step(self, loss: float, norm: float, per_head: Tensor) -> None:
        last = self.step == self.total
        if last or self.step % self.config.report_every == 0:
            heads = {f"loss_{head}": value for head, value in enumerate(per_head.tolist())}
            rate = self.optimiser.param_groups[0]["lr"]
            self._report({"loss": loss, "gradient_norm": norm, "learning_rate": rate, "train_s": self.spent_s, **heads})
            if self.watch.add(loss):
                raise _Failed("exploded", self._exploded(loss))
        if last or self.step % self.config.evaluate_every == 0:
            self._evaluate()
        if last or self.step % self.config.checkpoint_every == 0:
            self._save()

    def _exploded(self, loss: float) -> str:
        mean = self.watch.best if self.watch.best is not None else loss
        return (
            f"At step {self.step} the loss was {loss:.3g}, and for {self.watch.exploded} reports in a row it has been "
            f"more than {self.config.explosion_factor:g} times its best running mean ({mean:.3g}); lower the learning "
            "rate and start from the best weights."
        )

    def _numbers(self, step: int) -> Tensor:
        """What step `step` sees: a piece of its epoch's own order, so nothing but the step is remembered."""
        epoch, place = divmod(step, self.per_epoch)
        if self._order[0] != epoch:
            seed = self.config.seed * 1_000_003 + epoch
            self._order = (epoch, self.features.epoch(self.config.batch_tokens, seed))
        return self._order[1][place]

    def _cut_gradient(self) -> float:
        """Shorten the gradient, or cut its numbers; returns its norm before."""
        weights = list(self.learner.model.parameters())
        if self.config.gradient_value_clip is None:
            return torch.nn.utils.clip_grad_norm_(weights, self.config.gradient_clip).item()
        norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None]).item()
        torch.nn.utils.clip_grad_value_(weights, self.config.gradient_value_clip)
        return norm

    # -- evaluation
    # -----------------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Measure, report, and keep the weights when they are the best so far. Draws nothing from the generators."""
        with self.processes.turn(0) as mine:
            if mine:
                self._evaluate_alone()

    def _evaluate_alone(self) -> None:
        before = random_state(self.device)
        self.learner.model.eval()
        metrics = self._measure()
        if self.judge is not None:
            judged = self.judge()
            if judged is not None:
                metrics |= judged.as_metrics()
                self._keep_best(judged.acceptance_length)
        self.learner.model.train()
        restore_random_state(before, self.device)
        if metrics:
            self._report(metrics)

    def _measure(self) -> dict[str, float]:
        """Counts over all held-out positions, as metrics."""
        if len(self.held_out) == 0:
            return {}
        parts = []
        for numbers in self.held_out.in_order(self.config.batch_tokens):
            parts.append(self.learner.evaluate(self.held_out.batch(numbers, self.learner.horizon).to(self.device)))
        counts = [counts for counts, _ in parts]
        self.evaluation = sum(counts[1:], start=counts[0])
        self.ranks = torch.cat([ranks for _, ranks in parts]).cpu()
        found = self.evaluation.as_metrics() | acceptance_of_ranks(self.ranks)
        return {f"held_out_{name}": value for name, value in found.items()}

    def _keep_best(self, length: float) -> None:
        """Of equals the later one, which has learned more."""
        if self.best is None or length >= self.best[1]:
            self.best = (self.step, length)
            save_state(self.folder, self._weights() | {"acceptance_length": length}, BEST)

    def _weights(self) -> dict[str, Any]:
        """What another run can start from."""
        return {"family": self.learner.family, "step": self.step, "model": self.learner.model.state_dict()}

    def _finish(self) -> None:
        """Leave the learner with the weights to keep, and their evaluation."""
        if not self.processes.first:
            return
        kept = load_state(self.folder, BEST) if self.best is not None and self.config.keep == "best" else None
        if kept is not None and kept["step"] != self.total:
            self.learner.model.load_state_dict(kept["model"])
            self.evaluation = None
        if self.evaluation is None:  # other weights than those measured last, or resumed when all was done
            self.learner.model.eval()
            self._measure()
            self.learner.model.train()

    def _report(self, metrics: dict[str, float]) -> None:
        if self.processes.first:
            self.reporter.report(self.step, self.total, metrics)

    # -- checkpoints
    # ----------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What has to agree for a resume: everything that decides a step. How often to report or save does not, nor,
        without a judge that keeps the best, how often to evaluate.
        """
        free = {"checkpoint_every", "report_every", "explosion_reports", "explosion_factor", "kept_checkpoints"}
        if self.judge is None:
            free |= {"evaluate_every", "decode_prompts", "decode_tokens", "keep"}
        settings = self.config.model_dump(exclude=free)
        for name, usual in (("gradient_value_clip", None), ("precision", "float32")):
            if settings[name] == usual:  # runs begun before there was such a setting go on too
                del settings[name]
        shapes = {name: list(value.shape) for name, value in self.learner.model.state_dict().items()}
        return {
            "settings": settings,
            "family": self.learner.family,
            "family's settings": self.learner.settings,
            "shapes": shapes,
            "features": self.features.fingerprint,
            "starting weights": self.origin,
        }

    def _save(self) -> None:
        if not self.processes.first:
            return
        if self.config.kept_checkpoints:
            save_state(self.folder, self._weights(), weights_file(self.step))
        state = {
            "run": self._identity(),
            "step": self.step,
            "train_s": self.spent_s,
            "model": self.learner.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": random_state(self.device),
            "best": self.best,
            "watch": self.watch.state(),
            "threads": torch.get_num_threads(),
        }
        save_state(self.folder, state)
        forget_weights_before(self.folder, self.config.kept_checkpoints)

    def _resume(self) -> None:
        state = load_state(self.folder)
        # A kill may have come between the weights of a checkpoint and its state; they are made again.
        if self.processes.first:
            forget_weights_after(self.folder, state["step"] if state is not None else 0)
        if state is None:
            return
        if self.processes.first:  # the others neither judge nor know why that matters
            check_same_run(self._as_now(state), self._identity(), self.folder)
        self.step, self.spent_s = state["step"], state["train_s"]
        self.learner.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_state(state["random"], self.device)
        self.best = tuple(state["best"]) if state["best"] else None
        self.watch.load(state["watch"])
        if self.device.type == "cpu":
            # Sums over another number of threads differ in their last bits, and the curve with them.
            torch.set_num_threads(state.get("threads", torch.get_num_threads()))

    def _as_now(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state of an earlier version, which named the features by the hash of one capture's files."""
        former = getattr(self.features, "content", None)
        if former is None or state["run"].get("features") != former:
            return state
        return state | {"run": state["run"] | {"features": self.features.fingerprint}}

    def _result(self, finish_reason: str, reason: str) -> TrainResult:
        kept, length = self.best if self.best is not None and self.config.keep == "best" else (self.step, None)
        return TrainResult(
            self.step, self.total, finish_reason, reason, self.spent_s, self.evaluation, self.ranks, kept, length
        )
